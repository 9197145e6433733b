"""Compressed messages: taken where all readers agree, and never more of them than is allowed."""

import gzip
import tracemalloc
import zlib

import pytest

from greenroom.relay.calls import Code, Refuse
from greenroom.relay.compressed import decompressed, refused_encoding

WHOLE = gzip.compress(b"said" * 100)


def test_a_message_is_read_up_to_its_limit() -> None:
    assert decompressed(WHOLE, 400) == b"said" * 100
    assert decompressed(gzip.compress(b""), 0) == b""


def test_a_few_bytes_that_say_a_great_deal_are_not_read_to_the_end() -> None:
    bomb = gzip.compress(bytes(5_000_000))
    assert len(bomb) < 6_000
    tracemalloc.start()
    refused = decompressed(bomb, 1_000)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert refused == Refuse(Code.RESOURCE_EXHAUSTED, "grpc: received message after decompression larger than max 1000")
    assert most_bytes < 1_000_000


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "grpc: failed to decompress the message: EOF"),
        (WHOLE[:-1], "grpc: failed to read decompressed data: unexpected EOF"),
        (WHOLE[:-8] + bytes(8), "grpc: failed to decompress the message: .*incorrect data check"),
        (b"nonsense of ten", "grpc: failed to decompress the message: .*incorrect header check"),
        (zlib.compress(b"said"), "grpc: failed to decompress the message: .*incorrect header check"),
        (WHOLE + WHOLE, "grpc: failed to decompress the message: data after the end"),
        (WHOLE + b"\0", "grpc: failed to decompress the message: data after the end"),
    ],
)
def test_what_readers_might_read_differently_is_refused(content: bytes, text: str) -> None:
    """One reader goes on with a second member, another one stops: the message must be the same to both."""
    refused = decompressed(content, 4_000)
    assert isinstance(refused, Refuse)
    assert refused.code == Code.INTERNAL
    assert refused.details.startswith(text.partition(".*")[0])
    assert text.rpartition(".*")[2] in refused.details


def test_gzip_is_the_only_encoding_there_is() -> None:
    assert refused_encoding(b"") is refused_encoding(b"gzip") is None
    assert refused_encoding(b"GZIP") == Refuse(
        Code.UNIMPLEMENTED, 'grpc: Decompressor is not installed for grpc-encoding "GZIP"'
    )

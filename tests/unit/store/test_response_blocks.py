"""Header blocks of answers, written by the hpack library as etcd writes them."""

import hpack
import pytest

from greenroom.http2.frames import Fault
from greenroom.store.response_blocks import ResponseBlocks, head_of

HEAD = [(b":status", b"200"), (b"content-type", b"application/grpc")]


def test_a_head_and_trailers() -> None:
    head = head_of([*HEAD, (b"x-trace", b"1")])
    assert (head.http_status, head.is_grpc, head.status, head.trailers) == (b"200", True, None, (("x-trace", "1"),))
    trailers = head_of([(b"grpc-status", b"5"), (b"grpc-message", b"100%25 gone%3a %c3%a4")])
    assert (trailers.http_status, trailers.status, trailers.details) == (b"", 5, "100% gone: ä")


def test_a_status_that_is_no_number_is_unknown() -> None:
    assert head_of([(b"grpc-status", b"fine")]).status == 2


@pytest.mark.parametrize(("value", "expected"), [(b"+gA", [b"\xfa\x00"]), (b"YQ,Yg==", [b"a", b"b"]), (b"#", [])])
def test_binary_trailers_are_bytes(value: bytes, expected: list[bytes]) -> None:
    head = head_of([(b"grpc-status-details-bin", value)])
    assert head.trailers == tuple(("grpc-status-details-bin", one) for one in expected)


def test_the_same_bytes_mean_something_else_once_the_table_changed() -> None:
    """The newest entry has the same index each time."""
    encoder, blocks = hpack.Encoder(), ResponseBlocks()
    for number in (b"0", b"3", b"5"):
        trailers = [(b"grpc-status", number)]
        said = [blocks.head(encoder.encode(trailers)).status for _ in range(3)]
        assert said == [int(number)] * 3


def test_what_is_no_header_block_is_a_fault() -> None:
    with pytest.raises(Fault):
        ResponseBlocks().head(b"\xff\xff\xff\xff\xff\xff")

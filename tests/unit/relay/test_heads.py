"""What is known of a request before its first message."""

import hpack
import pytest

from greenroom.relay.calls import Kind
from greenroom.relay.header_blocks import encode_fields
from greenroom.relay.heads import BadMetadataError, RequestHead, RequestHeads

PATH = (b":path", b"/a/B")


def kind_of(path: bytes) -> Kind:
    return Kind.UNARY if path == b"/a/B" else Kind.REFUSE


def head(*fields: tuple[bytes, bytes]) -> RequestHead:
    return RequestHead(list(fields), kind_of)


@pytest.mark.parametrize("path", [b"//a/B", b"a/B", b"/a/B?x", b"/a/b", b"/A/B", b"/a%2fB", b"/a/B/", b""])
def test_only_the_exact_path_is_known(path: bytes) -> None:
    assert head((b":path", path)).kind is Kind.REFUSE
    assert head((b":path", path)).path == b""
    assert head(PATH).kind is Kind.UNARY
    assert head(PATH).path == b"/a/B"


def test_a_head_with_two_paths_or_none_is_refused() -> None:
    assert head(PATH, PATH).kind is Kind.REFUSE
    assert head((b":method", b"POST")).kind is Kind.REFUSE


def test_metadata_is_what_the_client_added() -> None:
    found = head(
        PATH,
        (b":authority", b"x"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
        (b"user-agent", b"grpc"),
        (b"grpc-timeout", b"1S"),
        (b"token", b"t"),
        (b"hasleader", b"true"),
        (b"trace-bin", b"AP8BAg, AAE="),
    ).metadata()
    assert found == (("token", "t"), ("hasleader", "true"), ("trace-bin", b"\0\xff\1\2"), ("trace-bin", b"\0\1"))


@pytest.mark.parametrize(
    "field",
    [(b"a-bin", b"A"), (b"a-bin", b"$$$$"), (b"a", b"\xff"), (b"a", b"\x01"), (b"a b", b""), (b"A", b""), (b"", b"")],
)
def test_malformed_metadata_is_named(field: tuple[bytes, bytes]) -> None:
    with pytest.raises(BadMetadataError, match="malformed metadata"):
        head(PATH, field).metadata()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(b"2H", 7200), (b"3M", 180), (b"4S", 4), (b"250m", 0.25), (b"99999999u", 99.999999), (b"5n", 5e-9), (b"0S", 0)],
)
def test_the_deadline_is_read_in_every_unit(text: bytes, seconds: float) -> None:
    assert head(PATH, (b"grpc-timeout", text)).timeout_seconds() == pytest.approx(seconds)


@pytest.mark.parametrize("text", [b"2562047H", b"99999999H"])
def test_a_deadline_after_centuries_is_one_that_a_library_can_count(text: bytes) -> None:
    """Go's longest time is the first one; gRPC's core takes it for one in the past."""
    assert head(PATH, (b"grpc-timeout", text)).timeout_seconds() == 10 * 365 * 24 * 3600


@pytest.mark.parametrize("text", [b"", b"S", b"1", b"1x", b"123456789S", b"-1S", b"1.5S", b" 1S"])
def test_a_malformed_deadline_is_named(text: bytes) -> None:
    with pytest.raises(BadMetadataError, match="grpc-timeout"):
        head(PATH, (b"grpc-timeout", text)).timeout_seconds()
    assert head(PATH).timeout_seconds() is None


def test_an_encoding_other_than_identity_is_compression() -> None:
    assert head(PATH, (b"grpc-encoding", b"gzip")).compressed
    assert not head(PATH, (b"grpc-encoding", b"identity")).compressed


def test_the_same_bytes_are_decoded_once_while_the_table_stays() -> None:
    heads = RequestHeads(kind_of, 65_536)
    encoder = hpack.Encoder()
    first = encoder.encode([PATH, (b"token", b"t")])
    second = encoder.encode([PATH, (b"token", b"t")])
    assert heads.head(first).path == b"/a/B"
    assert heads.head(second) is heads.head(second)


def test_the_same_bytes_mean_something_else_after_a_change_of_the_table() -> None:
    """Two paths share one index, one after the other: a cache that outlived the change would let the second pass."""
    heads = RequestHeads(kind_of, 65_536)
    heads.head(b"\x44\x04/a/B")
    assert heads.head(b"\xbe").kind is Kind.UNARY
    heads.head(b"\x44\x04/x/Y")
    assert heads.head(b"\xbe").kind is Kind.REFUSE
    assert heads.head(b"\xbf").kind is Kind.UNARY


def test_only_short_blocks_are_kept() -> None:
    """256 blocks of 64 KiB would be 16 MiB a connection."""
    heads = RequestHeads(kind_of, 65_536)
    for size, is_kept in ((900, True), (1_100, False)):
        block = encode_fields([PATH, (b"token", b"t" * size)])
        heads.head(block)
        assert (heads.head(block) is heads.head(block)) is is_kept

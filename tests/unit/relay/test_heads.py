"""What is known of a request before its first message."""

import hpack
import pytest

from greenroom.http2.header_blocks import encode_fields
from greenroom.relay.calls import Kind
from greenroom.relay.heads import BadTimeoutError, KnownHeads, RequestHead, RequestHeads

PATH = (b":path", b"/a/B")
TIMEOUT = b"grpc-timeout"


def kind_of(path: bytes) -> Kind:
    return Kind.UNARY if path == b"/a/B" else Kind.REFUSE


def head(*fields: tuple[bytes, bytes]) -> RequestHead:
    return KnownHeads(kind_of).head(list(fields))


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
def test_metadata_that_grpc_does_not_carry_is_left_out(field: tuple[bytes, bytes]) -> None:
    """The library that makes the handler's calls would refuse it; etcd takes no notice of it."""
    assert head(PATH, field, (b"token", b"t")).metadata() == (("token", "t"),)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (b"2H", 7200),
        (b"3M", 180),
        (b"4S", 4),
        (b"250m", 0.25),
        (b"99999999u", 99.999999),
        (b"5n", 5e-9),
        (b"0S", 0),
        (b"+1S", 1),
        (b"-1S", -1),
    ],
)
def test_the_deadline_is_read_in_every_unit(text: bytes, seconds: float) -> None:
    assert head(PATH, (b"grpc-timeout", text)).timeout_seconds() == pytest.approx(seconds)


@pytest.mark.parametrize("text", [b"2562047H", b"99999999H"])
def test_a_deadline_after_centuries_is_one_that_a_library_can_count(text: bytes) -> None:
    """Go's longest time is the first one; gRPC's core takes it for one in the past."""
    assert head(PATH, (b"grpc-timeout", text)).timeout_seconds() == 10 * 365 * 24 * 3600


@pytest.mark.parametrize("text", [b"", b"S", b"1", b"1x", b"123456789S", b"--1S", b"-S", b"1.5S", b" 1S"])
def test_a_malformed_deadline_is_none(text: bytes) -> None:
    with pytest.raises(BadTimeoutError):
        head(PATH, (b"grpc-timeout", text)).timeout_seconds()
    assert head(PATH).timeout_seconds() is None


def test_an_encoding_other_than_identity_is_compression() -> None:
    gzip, identity = (b"grpc-encoding", b"gzip"), (b"grpc-encoding", b"identity")
    assert head(PATH, gzip).encoding == head(PATH, gzip, (TIMEOUT, b"1S")).encoding == b"gzip"
    assert head(PATH).encoding == head(PATH, identity).encoding == b""
    assert head(PATH, gzip, identity).encoding == b"", "etcd's library takes the last one"


def test_the_same_bytes_are_decoded_once_while_the_table_stays() -> None:
    heads = RequestHeads(KnownHeads(kind_of), 65_536)
    encoder = hpack.Encoder()
    first = encoder.encode([PATH, (b"token", b"t")])
    second = encoder.encode([PATH, (b"token", b"t")])
    assert heads.head(first).path == b"/a/B"
    assert heads.head(second).path == b"/a/B"
    assert heads.head(second) is heads.head(second), "from the second time on"


def test_what_never_comes_again_does_not_push_out_what_does() -> None:
    """Tracing and deadlines make a block of its own of each call; the client's watches and keepalives stay known."""
    heads = RequestHeads(KnownHeads(kind_of), 65_536)
    usual = encode_fields([PATH, (b"token", b"t")])
    heads.head(usual)
    known = heads.head(usual)
    for number in range(200):
        heads.head(encode_fields([PATH, (b"grpc-trace-bin", b"%d" % number)]))
        assert heads.head(usual) is known


def test_blocks_that_come_again_are_bounded_and_the_oldest_is_forgotten() -> None:
    heads = RequestHeads(KnownHeads(kind_of), 65_536)
    blocks = [encode_fields([PATH, (b"token", b"%d" % number)]) for number in range(17)]
    for block in blocks:
        heads.head(block)
        heads.head(block)
    assert heads.head(blocks[1]) is heads.head(blocks[1])
    first = heads.head(blocks[0])
    assert heads.head(blocks[0]) is not first


def test_the_same_bytes_mean_something_else_after_a_change_of_the_table() -> None:
    """Two paths share one index, one after the other: a cache that outlived the change would let the second pass."""
    heads = RequestHeads(KnownHeads(kind_of), 65_536)
    heads.head(b"\x44\x04/a/B")
    assert heads.head(b"\xbe").kind is Kind.UNARY
    heads.head(b"\x44\x04/x/Y")
    assert heads.head(b"\xbe").kind is Kind.REFUSE
    assert heads.head(b"\xbf").kind is Kind.UNARY


def test_only_short_blocks_are_kept() -> None:
    """256 blocks of 64 KiB would be 16 MiB a connection."""
    heads = RequestHeads(KnownHeads(kind_of), 65_536)
    for size, is_kept in ((900, True), (1_100, False)):
        block = encode_fields([PATH, (b"token", b"t" * size)])
        heads.head(block)
        heads.head(block)
        assert (heads.head(block) is heads.head(block)) is is_kept


def test_heads_that_differ_in_their_deadline_only_have_all_else_in_common() -> None:
    """Clients with deadlines never send the same block twice."""
    known = KnownHeads(kind_of)
    plain, soon, late = (known.head([PATH, *more]) for more in ([], [(TIMEOUT, b"1S")], [(TIMEOUT, b"2S")]))
    assert (plain.timeout_seconds(), soon.timeout_seconds(), late.timeout_seconds()) == (None, 1.0, 2.0)
    assert plain.fields is soon.fields is late.fields
    assert (soon.path, soon.kind, soon.phase, soon.is_usual) == (plain.path, plain.kind, plain.phase, True)
    assert known.head([(TIMEOUT, b"3S"), PATH, (TIMEOUT, b"4S")]).timeout_seconds() == 3.0, "the first one counts"


def test_heads_are_shared_between_connections_unless_they_hold_something_of_a_clients_own() -> None:
    known = KnownHeads(kind_of)
    one, other = RequestHeads(known, 65_536), RequestHeads(known, 65_536)
    usual = encode_fields([PATH, (b"te", b"trailers"), (b"user-agent", b"grpc")])
    assert one.head(usual) is other.head(usual)
    own_fields = (
        (b"token", b"secret"),
        (b"authorization", b"secret"),
        (b"grpc-trace-bin", b"AAAA"),
        (b"user-agent", b"x" * 1_100),
    )
    for own in own_fields:
        block = encode_fields([PATH, own])
        assert one.head(block) is not other.head(block)


def test_shared_heads_are_bounded() -> None:
    known = KnownHeads(kind_of)
    first = known.head([PATH, (b"user-agent", b"0")])
    second = known.head([PATH, (b"user-agent", b"1")])
    for number in range(2, 1_025):
        known.head([PATH, (b"user-agent", b"%d" % number)])
    assert known.head([PATH, (b"user-agent", b"1")]) is second, "one too many is not all anew"
    assert known.head([PATH, (b"user-agent", b"0")]) is not first


def test_tracing_does_not_push_out_what_clients_share() -> None:
    known = KnownHeads(kind_of)
    shared = known.head([PATH])
    for number in range(3_000):
        known.head([PATH, (b"grpc-trace-bin", b"%d" % number), (b"grpc-tags-bin", b"%d" % number)])
    assert known.head([PATH]) is shared


def test_only_long_heads_are_counted() -> None:
    assert head(PATH, (b"token", b"t" * 900)).counted_bytes == 0
    counted = head(PATH, (b"token", b"t" * 2_000))
    assert counted.counted_bytes == 5 + 4 + 32 + 5 + 2_000 + 32
    rest = counted.without_fields()
    assert (rest.fields, rest.counted_bytes, rest.path, rest.kind) == ((), 0, b"/a/B", Kind.UNARY)


@pytest.mark.parametrize("more", [[(b"grpc-encoding", b"gzip")], [(b"token", b"t" * 2_000)], [PATH]])
def test_a_head_that_is_refused_or_counted_is_not_a_usual_one(more: list[tuple[bytes, bytes]]) -> None:
    assert head(PATH).is_usual
    assert not head(PATH, *more).is_usual

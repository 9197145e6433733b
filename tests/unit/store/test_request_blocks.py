"""Header blocks of requests, read back by the hpack library."""

import hpack
import pytest
from hpack.struct import NeverIndexedHeaderTuple

from greenroom.store.request_blocks import RequestBlocks, timeout_text

PATH = "/etcdserverpb.KV/Range"
COMMON = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", PATH),
    (":authority", "etcd-0:2379"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
    ("user-agent", "greenroom/test"),
]


class Peer:
    """A connection's blocks, and who reads them."""

    def __init__(self) -> None:
        self.blocks = RequestBlocks("etcd-0:2379", "greenroom/test")
        self.decoder = hpack.Decoder()

    def read(
        self, path: str = PATH, metadata: tuple[tuple[str, str | bytes], ...] = (), seconds: float | None = None
    ) -> list[tuple[str, str]]:
        return [tuple(field) for field in self.decoder.decode(self.blocks.block(path, metadata, seconds))]


def test_what_is_said_again_and_again_is_one_byte_each() -> None:
    peer = Peer()
    assert peer.read() == peer.read() == COMMON
    assert len(peer.blocks.block(PATH)) == len(COMMON)


def test_with_tls_the_scheme_is_another() -> None:
    peer = Peer()
    peer.blocks = RequestBlocks("etcd-0:2379", "greenroom/test", is_secure=True)
    assert peer.read() == peer.read() == [COMMON[0], (":scheme", "https"), *COMMON[2:]]


def test_methods_that_come_later_move_the_entries_of_those_before() -> None:
    peer = Peer()
    for path in ("/a", "/b", "/a", "/c", "/b", "/a", "/a"):
        assert peer.read(path)[2] == (":path", path)
    assert peer.read() == COMMON


def test_many_methods_and_long_ones_are_said_in_full() -> None:
    """Nothing is evicted, so what has no room stays outside."""
    peer = Peer()
    paths = [f"/service/{'x' * 60}{number}" for number in range(100)] + ["/" + "y" * 5000]
    for path in paths * 2:
        assert peer.read(path)[2:4] == [(":path", path), (":authority", "etcd-0:2379")]


def test_what_a_caller_gives_is_indexed_by_nobody() -> None:
    peer = Peer()
    for _ in range(2):
        block = peer.blocks.block(PATH, (("token", "secret"), ("trace-bin", b"\xfa\x00")))
        *_, token, trace = peer.decoder.decode(block)
        assert (tuple(token), tuple(trace)) == (("token", "secret"), ("trace-bin", "+gA"))
        assert isinstance(token, NeverIndexedHeaderTuple)


def test_what_cannot_be_sent_leaves_both_tables_in_step() -> None:
    peer = Peer()
    for metadata in ((("name", "ä"),), (("nämé", "x"),)):
        with pytest.raises(UnicodeEncodeError):
            peer.blocks.block(PATH, metadata)
    with pytest.raises(UnicodeEncodeError):
        peer.blocks.block("/ä")
    assert peer.read() == peer.read() == COMMON


def test_a_deadline_stands_in_its_own_request_only() -> None:
    peer = Peer()
    assert peer.read(seconds=1.5)[-1] == ("grpc-timeout", "1500000u")
    assert peer.read() == COMMON


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, b"1u"),
        (0.0000015, b"1u"),
        (99.999999, b"99999999u"),
        (100.0, b"100000m"),
        (86_400.0, b"86400000m"),
        (200_000.0, b"200000S"),
        (1e12, b"99999999S"),
    ],
)
def test_a_deadline_is_as_exact_as_eight_digits_allow(seconds: float, text: bytes) -> None:
    assert timeout_text(seconds) == text


def test_a_peer_with_a_smaller_table_has_nothing_put_into_it() -> None:
    peer = Peer()
    peer.read()
    peer.blocks.table_bytes(100)
    peer.decoder.max_allowed_table_size = 100
    for _ in range(3):
        assert peer.read() == COMMON
    assert peer.decoder.header_table_size == 0


def test_a_peer_with_a_larger_table_gets_what_any_gets() -> None:
    peer = Peer()
    peer.blocks.table_bytes(1 << 20)
    assert peer.read() == peer.read() == COMMON
    assert peer.decoder.header_table_size == 4096

"""What the proxy answers by itself is answered as etcd answers it: header by header, word by word.

The rule: both are asked the same of the same store, by clients made of frames; a worker registered past the proxy asks
etcd, and one that is held asks the proxy, each about its own. Where etcds differ, the proxy is like the older ones.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from google.protobuf.message import Message

from greenroom.pb.etcd import rpc_pb2
from tests.support.endpoints import Proxy
from tests.support.frames import framed_message
from tests.support.raw_grpc import Headers, RawAnswer, RawGrpc
from tests.support.workers import Worker

KV = "/etcdserverpb.KV/"
READS_HEADS_STRICTLY = (3, 5, 2)
"""Of the etcds tried here 3.5.16 is the first one that does, and 3.5.1 the last one that does not."""

Asked = Callable[[Worker], Message]


@dataclass(frozen=True)
class Sides:
    """Both connections, with who asks on each."""

    direct: RawGrpc
    public: Worker
    proxied: RawGrpc
    held: Worker
    is_strict: bool

    def ask(
        self, path: str, asked: Asked, headers: Headers, frame: Callable[[bytes], bytes]
    ) -> tuple[RawAnswer, RawAnswer]:
        """Both answers: etcd's, the proxy's."""
        direct, proxied = (
            raw.call_content(path, frame(asked(worker).SerializeToString()), headers=headers)
            for raw, worker in ((self.direct, self.public), (self.proxied, self.held))
        )
        return direct, proxied


@pytest.fixture
def sides(proxy: Proxy) -> Iterator[Sides]:
    proxy.public.put(b"a", b"1")
    public, held = Worker(proxy.public), proxy.held_worker()
    assert public.register().succeeded
    with RawGrpc(proxy.etcd.address) as direct, RawGrpc(proxy.address) as proxied:
        yield Sides(direct, public, proxied, held, is_strict=proxy.etcd.version >= READS_HEADS_STRICTLY)
        # None of the calls may have cost the connection, or the worker its place.
        assert (proxied.goaway, proxied.closed) == (direct.goaway, direct.closed) == (None, False)
    assert proxy.held(held) == [held.card_key]
    assert proxy.shown(held) == []


def own_card(worker: Worker) -> Message:
    return rpc_pb2.RangeRequest(key=worker.card_key)


def put_own_card(worker: Worker) -> Message:
    return rpc_pb2.PutRequest(key=worker.card_key, value=worker.card(), lease=worker.lease)


ANSWERED_HERE: dict[str, tuple[str, Asked]] = {
    "read": (f"{KV}Range", own_card),
    "put": (f"{KV}Put", put_own_card),
    "txn": (f"{KV}Txn", lambda w: rpc_pb2.TxnRequest(success=[rpc_pb2.RequestOp(request_put=put_own_card(w))])),
    "lease": ("/etcdserverpb.Lease/LeaseTimeToLive", lambda w: rpc_pb2.LeaseTimeToLiveRequest(ID=w.lease, keys=True)),
    "members": ("/etcdserverpb.Cluster/MemberList", lambda _: rpc_pb2.MemberListRequest()),
}


@pytest.mark.parametrize(("path", "asked"), ANSWERED_HERE.values(), ids=ANSWERED_HERE)
def test_an_answer_has_etcds_headers_to_the_last_one(sides: Sides, path: str, asked: Asked) -> None:
    """An empty `grpc-message` among them."""
    direct, proxied = sides.ask(path, asked, (), framed_message)
    assert direct.status == 0
    assert proxied.blocks == direct.blocks
    assert len(proxied.messages) == len(direct.messages) == 1


def flagged(flag: int) -> Callable[[bytes], bytes]:
    return lambda message: bytes([flag]) + framed_message(message)[1:]


NOT_TAKEN = {
    "compressed by nobody's rule": ((("grpc-encoding", "snappy"),), flagged(1)),
    "an encoding that nobody has": ((("grpc-encoding", "snappy"),), framed_message),
    "deflate": ((("grpc-encoding", "deflate"),), flagged(1)),
    "compressed without saying how": ((), flagged(1)),
    "compressed as it is": ((("grpc-encoding", "identity"),), flagged(1)),
    "a flag that there is not": ((), flagged(2)),
}


@pytest.mark.parametrize(("headers", "frame"), NOT_TAKEN.values(), ids=NOT_TAKEN)
@pytest.mark.parametrize("asked", [own_card, lambda _: rpc_pb2.RangeRequest(key=b"a")], ids=["held", "other"])
def test_a_message_that_cannot_be_read_is_refused_in_etcds_words(
    sides: Sides, asked: Asked, headers: Headers, frame: Callable[[bytes], bytes]
) -> None:
    direct, proxied = sides.ask(f"{KV}Range", asked, headers, frame)
    assert direct.status
    assert proxied == direct


def test_a_message_too_large_for_the_proxy_is_refused_in_etcds_words(sides: Sides) -> None:
    """Each names its own limit."""
    direct, proxied = sides.ask(
        f"{KV}Put", lambda _: rpc_pb2.PutRequest(key=b"a", value=bytes(5 << 20)), (), framed_message
    )
    told = [answer.trailers["grpc-message"].partition(" vs. ")[0] for answer in (direct, proxied)]
    assert told == ["grpc: received message larger than max (5242888"] * 2
    assert proxied.status == direct.status


@pytest.mark.parametrize("timeout", ["", "5", "S", "5x", "123456789S", "1.5S"])
def test_a_deadline_that_is_none_is_refused_as_by_etcd(sides: Sides, timeout: str) -> None:
    """Older etcds reset the call. Newer ones say what is wrong; the proxy does so only where etcd sees to the call."""
    direct, proxied = sides.ask(f"{KV}Range", own_card, (("grpc-timeout", timeout),), framed_message)
    assert direct.messages == proxied.messages == []
    if not sides.is_strict:
        assert proxied == direct
    direct, proxied = sides.ask(
        f"{KV}Range", lambda _: rpc_pb2.RangeRequest(key=b"a"), (("grpc-timeout", timeout),), framed_message
    )
    assert proxied == direct


@pytest.mark.parametrize("timeout", ["0S", "0n"])
def test_a_deadline_that_has_passed_is_told_in_gos_words(sides: Sides, timeout: str) -> None:
    """etcd gives it either of two codes, as it happens, and newer ones now and then say first where it hit them."""
    direct, proxied = sides.ask(f"{KV}Range", own_card, (("grpc-timeout", timeout),), framed_message)
    assert proxied.trailers["grpc-message"] == "context deadline exceeded"
    assert direct.trailers["grpc-message"] in {
        "context deadline exceeded",
        "rangeKeys: context cancelled: context deadline exceeded",
    }


UNUSUAL = {
    "no base64": (("x-bin", "!!"),),
    "half a byte": (("x-bin", "A"),),
    "a name of its own": (("x~y", "1"),),
    "more than ASCII": (("x", "caf\xe9"),),
}


@pytest.mark.parametrize("headers", UNUSUAL.values(), ids=UNUSUAL)
def test_metadata_that_is_none_costs_no_call_its_answer(sides: Sides, headers: Headers) -> None:
    """Newer etcds refuse what ends in `-bin` and is no base64; the proxy takes no notice of it, as older ones do."""
    direct, proxied = sides.ask(f"{KV}Range", own_card, headers, framed_message)
    assert proxied.status == 0
    if not (sides.is_strict and headers[0][0].endswith("-bin")):
        assert proxied.blocks == direct.blocks

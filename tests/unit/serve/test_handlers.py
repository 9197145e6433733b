"""Handed-over calls answered in the shape that etcd's own answers have."""

from typing import Any, TypeVar, cast

import grpc
import pytest
from google.protobuf.message import Message

from greenroom.core.transitions import ITSELF
from greenroom.pb.etcd import lock_pb2, rpc_pb2
from greenroom.relay.calls import Answer, HandedOverCall
from greenroom.serve.handlers import CallHandler
from greenroom.serve.memory import Memory
from greenroom.serve.work import GatedCall, PlainCall
from greenroom.store.upstream import Upstream
from tests.support.instances import GATED_KEYS, LEASE, NOW, SHADOWS, K, policy, value_of
from tests.support.model_etcd import ModelEtcd
from tests.support.model_upstream import ModelUpstream

AnswerT = TypeVar("AnswerT", bound=Message)
URL = "http://proxy:2389"
TOKEN = (("token", "the client's"),)
PUT, RANGE = b"/etcdserverpb.KV/Put", b"/etcdserverpb.KV/Range"


class Scene:
    """A handler over a model etcd in which the worker's lease lives."""

    def __init__(self) -> None:
        self.refused: list[tuple[bytes, str]] = []
        self.rules = policy("smoke")
        self.upstream = ModelUpstream(ModelEtcd().grant(LEASE))
        self.handler = CallHandler(
            cast(Upstream, self.upstream),
            GATED_KEYS,
            lambda: self.rules,
            clock=lambda: NOW,
            opened=lambda _: None,
            held_later=lambda *_: None,
            ungated=lambda *_: None,
            fence_lost=lambda: None,
            denied=lambda _: None,
            refused=lambda path, error: self.refused.append((path, error.reason)),
            memory=Memory(lambda: 1),
            advertise_url=URL,
        )

    async def answer(self, request: Message, path: bytes = b"/path", *, gated: bool = True) -> Answer:
        work = GatedCall(path, request) if gated else PlainCall(path, request)
        return await self.handler(HandedOverCall(path, work, TOKEN, 3.0))

    async def ask(
        self, request: Message, answer: type[AnswerT], path: bytes = b"/path", *, gated: bool = True
    ) -> AnswerT:
        given = await self.answer(request, path, gated=gated)
        assert (given.code, given.details) == (0, "")
        assert given.message is not None
        return answer.FromString(given.message)


def put() -> rpc_pb2.PutRequest:
    return rpc_pb2.PutRequest(key=K, value=value_of(K), lease=LEASE, prev_kv=True)


async def test_a_held_put_answers_as_a_put() -> None:
    scene = Scene()
    first = await scene.ask(put(), rpc_pb2.PutResponse)
    second = await scene.ask(put(), rpc_pb2.PutResponse)
    assert first.header.revision == 2
    assert not first.HasField("prev_kv")
    assert (second.header.revision, second.prev_kv.key, second.prev_kv.value) == (3, K, value_of(K))


async def test_a_held_delete_answers_as_a_delete() -> None:
    scene = Scene()
    await scene.ask(put(), rpc_pb2.PutResponse)
    deleted = await scene.ask(rpc_pb2.DeleteRangeRequest(key=K, prev_kv=True), rpc_pb2.DeleteRangeResponse)
    assert (deleted.header.revision, deleted.deleted, deleted.prev_kvs[0].key) == (3, 1, K)
    assert SHADOWS + K not in scene.upstream.etcd.items


async def test_a_held_card_is_read_back_by_its_key() -> None:
    scene = Scene()
    await scene.ask(put(), rpc_pb2.PutResponse)
    found = await scene.ask(rpc_pb2.RangeRequest(key=K), rpc_pb2.RangeResponse)
    assert (found.header.revision, found.count, found.kvs[0].key, found.kvs[0].lease) == (2, 1, K, LEASE)


async def test_a_held_create_answers_as_a_txn() -> None:
    scene = Scene()
    create = rpc_pb2.TxnRequest(
        compare=[rpc_pb2.Compare(key=K, version=0)],
        success=[rpc_pb2.RequestOp(request_put=put())],
        failure=[rpc_pb2.RequestOp(request_range=rpc_pb2.RangeRequest(key=K))],
    )
    first = await scene.ask(create, rpc_pb2.TxnResponse)
    second = await scene.ask(create, rpc_pb2.TxnResponse)
    assert (first.succeeded, len(first.responses)) == (True, 1)
    assert (second.succeeded, len(second.responses)) == (False, 1)
    assert second.responses[0].response_range.kvs[0].key == K


async def test_the_leases_keys_are_named_as_their_owner_knows_them() -> None:
    scene = Scene()
    await scene.ask(put(), rpc_pb2.PutResponse)
    lease = await scene.ask(rpc_pb2.LeaseTimeToLiveRequest(ID=LEASE, keys=True), rpc_pb2.LeaseTimeToLiveResponse)
    assert list(lease.keys) == [K]


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (rpc_pb2.MemberListRequest(), rpc_pb2.MemberListResponse),
        (rpc_pb2.MemberAddRequest(), rpc_pb2.MemberAddResponse),
        (rpc_pb2.MemberUpdateRequest(ID=1), rpc_pb2.MemberUpdateResponse),
        (rpc_pb2.MemberRemoveRequest(ID=1), rpc_pb2.MemberRemoveResponse),
        (rpc_pb2.MemberPromoteRequest(ID=1), rpc_pb2.MemberPromoteResponse),
    ],
    ids=["list", "add", "update", "remove", "promote"],
)
async def test_members_are_reached_by_the_proxys_own_url(request_: Message, answer: type[Message]) -> None:
    name = type(request_).__name__.removesuffix("Request")
    given: Any = await Scene().ask(request_, answer, f"/etcdserverpb.Cluster/{name}".encode())
    assert [(member.name, list(member.clientURLs)) for member in given.members] == [("one", [URL])]


async def test_a_member_that_has_not_started_yet_is_shown_without_an_address_as_by_etcd() -> None:
    added = await Scene().ask(rpc_pb2.MemberAddRequest(), rpc_pb2.MemberAddResponse, b"/etcdserverpb.Cluster/MemberAdd")
    assert (added.member.ID, list(added.member.clientURLs)) == (2, [])


async def test_etcds_own_refusal_goes_back_as_it_came() -> None:
    scene = Scene()
    scene.upstream.etcd = scene.upstream.etcd.revoke(LEASE)
    answer = await scene.answer(put())
    assert (answer.message, answer.code) == (None, grpc.StatusCode.NOT_FOUND.value[0])
    assert answer.details == "etcdserver: requested lease not found"
    assert answer.trailers == (("trailer", "etcd's"),)


async def test_a_refusal_of_ours_has_its_code_and_says_why() -> None:
    scene = Scene()
    answer = await scene.answer(rpc_pb2.PutRequest(key=K, value=value_of(K), lease=LEASE + 1))
    assert (answer.message, answer.code) == (None, grpc.StatusCode.INVALID_ARGUMENT.value[0])
    assert "under lease" in answer.details
    assert scene.refused == [(b"/path", "REFUSED_WRITE")]


async def test_a_call_without_gated_keys_is_sent_on_as_it_is() -> None:
    scene = Scene()
    await scene.ask(rpc_pb2.PutRequest(key=b"plain", value=b"1"), rpc_pb2.PutResponse, PUT, gated=False)
    found = await scene.ask(rpc_pb2.RangeRequest(key=b"plain"), rpc_pb2.RangeResponse, RANGE, gated=False)
    assert found.kvs[0].value == b"1"
    assert ITSELF.encode() not in b"".join(scene.upstream.etcd.items)
    assert scene.upstream.plain_calls == [(PUT.decode(), TOKEN, 3.0), (RANGE.decode(), TOKEN, 3.0)]


async def test_any_other_unary_call_is_sent_on_too() -> None:
    """A lock whose bytes could not go up as they came."""
    locked = await Scene().ask(
        lock_pb2.LockRequest(name=b"job"), lock_pb2.LockResponse, b"/v3lockpb.Lock/Lock", gated=False
    )
    assert locked.key == b"job"


async def test_who_may_not_see_what_is_held_reads_what_is_public() -> None:
    """A frontend that asks for a card by its name, in an etcd that lets it read cards and nothing of the proxy's."""
    scene = Scene()
    await scene.ask(put(), rpc_pb2.PutResponse)
    scene.upstream.denies = lambda _: True
    found = await scene.ask(rpc_pb2.RangeRequest(key=K), rpc_pb2.RangeResponse)
    assert (found.header.revision, found.count) == (2, 0)


async def test_who_may_not_see_what_is_held_is_told_of_the_leases_other_keys() -> None:
    scene = Scene()
    await scene.ask(put(), rpc_pb2.PutResponse)
    scene.upstream.etcd, _ = scene.upstream.etcd.put(rpc_pb2.PutRequest(key=b"other", lease=LEASE))
    lease = rpc_pb2.LeaseTimeToLiveRequest(ID=LEASE, keys=True)
    assert set((await scene.ask(lease, rpc_pb2.LeaseTimeToLiveResponse)).keys) == {K, b"other"}
    scene.upstream.may_know_keys = False
    assert list((await scene.ask(lease, rpc_pb2.LeaseTimeToLiveResponse)).keys) == [b"other"]
    probe, metadata = scene.upstream.sent[-1]
    assert (metadata, [operation.request_range.key for operation in probe.success]) == (TOKEN, [b"other"])
    scene.upstream.denies = lambda _: True
    assert (await scene.answer(lease)).code == grpc.StatusCode.PERMISSION_DENIED.value[0]


def test_a_write_goes_by_the_policy_in_force_when_it_begins_and_by_no_later_one() -> None:
    scene = Scene()
    began = scene.handler._writes_now()
    scene.rules = policy("latency")
    assert began.policy == policy("smoke")
    assert scene.handler._writes_now().policy == policy("latency")
    assert scene.handler._writes_now() is scene.handler._writes_now()

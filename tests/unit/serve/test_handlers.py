"""Handed-over calls answered in the shape that etcd's own answers have."""

from typing import TypeVar, cast

import grpc
from google.protobuf.message import Message

from greenroom.core.transitions import ITSELF
from greenroom.pb.etcd import rpc_pb2
from greenroom.relay.calls import Answer, HandedOverCall
from greenroom.serve.handlers import CallHandler
from greenroom.serve.work import GatedCall, PlainCall
from greenroom.store.upstream import Upstream
from tests.support.instances import GATED_KEYS, LEASE, NOW, SHADOWS, K, policy, value_of
from tests.support.model_etcd import ModelEtcd
from tests.support.model_upstream import ModelUpstream

AnswerT = TypeVar("AnswerT", bound=Message)
URL = "http://proxy:2389"


class Scene:
    """A handler over a model etcd in which the worker's lease lives."""

    def __init__(self) -> None:
        self.upstream = ModelUpstream(ModelEtcd().grant(LEASE))
        self.handler = CallHandler(
            cast(Upstream, self.upstream),
            GATED_KEYS,
            policy("smoke"),
            clock=lambda: NOW,
            opened=lambda _: None,
            fence_lost=lambda: None,
            advertise_url=URL,
        )

    async def answer(self, request: Message, *, gated: bool = True) -> Answer:
        work = GatedCall(b"/path", request) if gated else PlainCall(b"/path", request)
        return await self.handler(HandedOverCall(b"/path", work, b"", (), None, "client"))

    async def ask(self, request: Message, answer: type[AnswerT], *, gated: bool = True) -> AnswerT:
        given = await self.answer(request, gated=gated)
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


async def test_members_are_reached_by_the_proxys_own_url() -> None:
    members = await Scene().ask(rpc_pb2.MemberListRequest(), rpc_pb2.MemberListResponse)
    assert [list(member.clientURLs) for member in members.members] == [[URL]]


async def test_etcds_own_refusal_goes_back_as_it_came() -> None:
    scene = Scene()
    scene.upstream.etcd = scene.upstream.etcd.revoke(LEASE)
    answer = await scene.answer(put())
    assert (answer.message, answer.code) == (None, grpc.StatusCode.NOT_FOUND.value[0])
    assert answer.details == "etcdserver: requested lease not found"
    assert answer.trailers == (("trailer", "etcd's"),)


async def test_a_refusal_of_ours_has_its_code_and_says_why() -> None:
    answer = await Scene().answer(rpc_pb2.PutRequest(key=K, value=value_of(K), lease=LEASE + 1))
    assert (answer.message, answer.code) == (None, grpc.StatusCode.INVALID_ARGUMENT.value[0])
    assert "under lease" in answer.details


async def test_a_call_without_gated_keys_is_sent_on_as_it_is() -> None:
    scene = Scene()
    await scene.ask(rpc_pb2.PutRequest(key=b"plain", value=b"1"), rpc_pb2.PutResponse, gated=False)
    found = await scene.ask(rpc_pb2.RangeRequest(key=b"plain"), rpc_pb2.RangeResponse, gated=False)
    assert found.kvs[0].value == b"1"
    deleted = await scene.ask(rpc_pb2.DeleteRangeRequest(key=b"plain"), rpc_pb2.DeleteRangeResponse, gated=False)
    assert deleted.deleted == 1
    assert ITSELF.encode() not in b"".join(scene.upstream.etcd.items)

"""The calls that are answered here instead of relayed: one handler for the relay, one function for each method."""

from collections.abc import Callable
from datetime import datetime

import grpc
from google.protobuf.message import Message

from greenroom.core.keyspace import InstanceId
from greenroom.core.policy import Policy
from greenroom.core.ranges import clip_txn, leaves
from greenroom.core.restore import lease_answer, read_answer, read_txn
from greenroom.core.templates import GatedKey, GatedKeys
from greenroom.core.worker_calls import WorkerRequest, as_txn, examine
from greenroom.errors import GreenroomError
from greenroom.pb.etcd import rpc_pb2
from greenroom.relay.calls import Answer, HandedOverCall, Metadata
from greenroom.serve.gate import Gate
from greenroom.serve.work import GatedCall, PlainCall
from greenroom.store.upstream import Upstream


class CallHandler:
    """The relay's handler. Etcd's own errors go back as they came, ours with their code and text."""

    def __init__(
        self,
        upstream: Upstream,
        gated_keys: GatedKeys,
        policy: Policy,
        *,
        clock: Callable[[], datetime],
        opened: Callable[[InstanceId], None],
        fence_lost: Callable[[], None],
        advertise_url: str,
    ) -> None:
        self._upstream = upstream
        self._gated_keys = gated_keys
        self._advertise_url = advertise_url
        self._gate = Gate(upstream, gated_keys, policy, clock, opened, fence_lost)

    async def __call__(self, call: HandedOverCall) -> Answer:
        """The answer to one call; never raises for anything that etcd or a rule said."""
        work = call.work
        assert isinstance(work, GatedCall | PlainCall)
        try:
            answer = await self._answer(work, call.metadata, call.timeout_seconds)
        except GreenroomError as error:
            return Answer(None, error.code.value[0], str(error))
        except grpc.aio.AioRpcError as error:
            return Answer(None, error.code().value[0], error.details() or "", tuple(error.trailing_metadata() or ()))
        return Answer(answer.SerializeToString())

    async def _answer(self, work: GatedCall | PlainCall, metadata: Metadata, timeout_seconds: float | None) -> Message:
        match work.request:
            case rpc_pb2.RangeRequest() as read if isinstance(work, GatedCall):
                return await self._read(read, metadata, timeout_seconds)
            case rpc_pb2.RangeRequest() as read:
                return await self._upstream.range(read, metadata=metadata, timeout_seconds=timeout_seconds)
            case rpc_pb2.PutRequest() | rpc_pb2.DeleteRangeRequest() | rpc_pb2.TxnRequest() as write:
                return await self._write(write, metadata, timeout_seconds)
            case rpc_pb2.LeaseTimeToLiveRequest() as lease:
                found = await self._upstream.lease_time_to_live(
                    lease, metadata=metadata, timeout_seconds=timeout_seconds
                )
                return lease_answer(found)
            case rpc_pb2.MemberListRequest() as members:
                return await self._members(members, metadata, timeout_seconds)
            case other:
                raise AssertionError(f"no handler for {type(other).__name__}")

    async def _read(
        self, request: rpc_pb2.RangeRequest, metadata: Metadata, timeout_seconds: float | None
    ) -> rpc_pb2.RangeResponse:
        gated = self._gated_keys.classify(request.key)
        if not isinstance(gated, GatedKey):
            return await self._upstream.range(request, metadata=metadata, timeout_seconds=timeout_seconds)
        answer = await self._upstream.txn(read_txn(request, gated), metadata=metadata, timeout_seconds=timeout_seconds)
        return read_answer(answer)

    async def _write(self, request: WorkerRequest, metadata: Metadata, timeout_seconds: float | None) -> Message:
        asked = as_txn(request)
        txn = clip_txn(asked, tuple(leaves(asked)))
        uses = examine(txn, self._gated_keys)
        if uses is None:
            return await self._as_it_is(request, metadata, timeout_seconds)
        answer = await self._gate.carry_out(txn, uses, metadata, timeout_seconds)
        return _as_asked(request, answer)

    async def _as_it_is(self, request: WorkerRequest, metadata: Metadata, timeout_seconds: float | None) -> Message:
        """A write without gated keys; the inspector clipped it."""
        match request:
            case rpc_pb2.PutRequest():
                return await self._upstream.put(request, metadata=metadata, timeout_seconds=timeout_seconds)
            case rpc_pb2.DeleteRangeRequest():
                return await self._upstream.delete_range(request, metadata=metadata, timeout_seconds=timeout_seconds)
            case rpc_pb2.TxnRequest():
                return await self._upstream.txn(request, metadata=metadata, timeout_seconds=timeout_seconds)

    async def _members(
        self, request: rpc_pb2.MemberListRequest, metadata: Metadata, timeout_seconds: float | None
    ) -> rpc_pb2.MemberListResponse:
        """The members with this proxy's URL: a client that follows etcd's own would go round the proxy."""
        answer = await self._upstream.member_list(request, metadata=metadata, timeout_seconds=timeout_seconds)
        for member in answer.members:
            del member.clientURLs[:]
            member.clientURLs.append(self._advertise_url)
        return answer


def _as_asked(request: WorkerRequest, answer: rpc_pb2.TxnResponse) -> Message:
    """The Txn's answer as the client's own call has it, under the Txn's header, the one that has the revision."""
    match request:
        case rpc_pb2.TxnRequest():
            return answer
        case rpc_pb2.PutRequest():
            put = answer.responses[0].response_put
            put.header.CopyFrom(answer.header)
            return put
        case rpc_pb2.DeleteRangeRequest():
            deleted = answer.responses[0].response_delete_range
            deleted.header.CopyFrom(answer.header)
            return deleted

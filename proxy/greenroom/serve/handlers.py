"""The calls that are answered here instead of relayed: one handler for the relay, one function for each method."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final, TypeAlias, assert_never

import grpc
from google.protobuf.message import Message

from greenroom.core.keyspace import InstanceId
from greenroom.core.permissions import read_probes
from greenroom.core.policy import Policy
from greenroom.core.record import GatedEntry, Record
from greenroom.core.restore import lease_answer, read_answer, read_txn, without_reserved_keys
from greenroom.core.templates import GatedKey, GatedKeys
from greenroom.core.worker_calls import WorkerRequest, as_txn, examine
from greenroom.errors import GreenroomError, NotReady
from greenroom.pb.etcd import rpc_pb2
from greenroom.relay.calls import Answer, HandedOverCall, Metadata
from greenroom.serve.gated_writes import GatedWrites
from greenroom.serve.memory import Memory
from greenroom.serve.work import GatedCall, PlainCall
from greenroom.store.credentials import for_itself
from greenroom.store.upstream import Calls, Upstream

_Members: TypeAlias = (
    rpc_pb2.MemberListResponse
    | rpc_pb2.MemberAddResponse
    | rpc_pb2.MemberUpdateResponse
    | rpc_pb2.MemberRemoveResponse
    | rpc_pb2.MemberPromoteResponse
)
_MEMBERS: Final[Mapping[bytes, type[_Members]]] = {
    b"/etcdserverpb.Cluster/MemberList": rpc_pb2.MemberListResponse,
    b"/etcdserverpb.Cluster/MemberAdd": rpc_pb2.MemberAddResponse,
    b"/etcdserverpb.Cluster/MemberUpdate": rpc_pb2.MemberUpdateResponse,
    b"/etcdserverpb.Cluster/MemberRemove": rpc_pb2.MemberRemoveResponse,
    b"/etcdserverpb.Cluster/MemberPromote": rpc_pb2.MemberPromoteResponse,
}
"""The calls whose answers name members, and these answers."""


LeaseAnswer: TypeAlias = Callable[[rpc_pb2.LeaseTimeToLiveResponse], rpc_pb2.LeaseTimeToLiveResponse]
"""What a port shows of a lease's keys."""


class CallHandler:
    """The relay's handler. Etcd's own errors go back as they came, ours with their code and text."""

    def __init__(
        self,
        upstream: Upstream,
        gated_keys: GatedKeys,
        policy: Callable[[], Policy],
        *,
        clock: Callable[[], datetime],
        opened: Callable[[InstanceId], None],
        held_later: Callable[[InstanceId, Record], None],
        ungated: Callable[[InstanceId, GatedEntry], None],
        fence_lost: Callable[[], None],
        denied: Callable[[InstanceId], None],
        refused: Callable[[bytes, GreenroomError], None],
        memory: Memory,
        advertise_url: str,
        lease_answer: LeaseAnswer = lease_answer,
    ) -> None:
        self._upstream, self._refused, self._lease_answer = upstream, refused, lease_answer
        self._gated_keys, self._policy = gated_keys, policy
        self._advertise_url = advertise_url
        self._writes = GatedWrites(
            upstream, gated_keys, policy(), clock, opened, ungated, fence_lost, denied, memory, held_later
        )

    async def __call__(self, call: HandedOverCall) -> Answer:
        """The answer to one call; never raises for anything that etcd or a rule said."""
        work = call.work
        assert isinstance(work, GatedCall | PlainCall)
        try:
            answer = await self._answer(work, call)
        except GreenroomError as error:
            self._refused(call.path, error)
            return Answer(None, error.code.value[0], str(error))
        except grpc.aio.AioRpcError as error:
            return Answer(None, error.code().value[0], error.details() or "", tuple(error.trailing_metadata() or ()))
        return Answer(answer)

    async def _answer(self, work: GatedCall | PlainCall, call: HandedOverCall) -> bytes:
        client = self._upstream.as_client(call.metadata)
        if isinstance(work, PlainCall):
            return await _as_it_is(work, client, call.timeout_seconds)
        if work.path in _MEMBERS:
            return self._with_own_url(work.path, await _as_it_is(work, client, call.timeout_seconds))
        return (await self._gated(work.request, client, call)).SerializeToString()

    async def _gated(self, request: Message, client: Calls, call: HandedOverCall) -> Message:
        match request:
            case rpc_pb2.RangeRequest() as read:
                return await self._read(read, client, call.timeout_seconds)
            case rpc_pb2.PutRequest() | rpc_pb2.DeleteRangeRequest() | rpc_pb2.TxnRequest() as write:
                return await self._write(write, call.metadata, call.timeout_seconds)
            case rpc_pb2.LeaseTimeToLiveRequest() as lease:
                return await self._lease(lease, client, call.timeout_seconds)
            case other:
                raise AssertionError(f"no handler for {type(other).__name__}")

    async def _read(
        self, request: rpc_pb2.RangeRequest, client: Calls, timeout_seconds: float | None
    ) -> rpc_pb2.RangeResponse:
        """The key's shadow or the key. A client that may not see what is held is shown what everybody sees."""
        gated = self._gated_keys.classify(request.key)
        assert isinstance(gated, GatedKey), "the inspector hands over reads of gated keys only"
        try:
            return read_answer(await client.txn(read_txn(request, gated), timeout_seconds=timeout_seconds))
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.PERMISSION_DENIED:
                raise
        return await client.range(request, timeout_seconds=timeout_seconds)

    async def _lease(
        self, request: rpc_pb2.LeaseTimeToLiveRequest, client: Calls, timeout_seconds: float | None
    ) -> rpc_pb2.LeaseTimeToLiveResponse:
        """A lease with its keys, which newer etcd gives only to who may read them all.

        A client that may not see what is held is asked about what everybody sees: etcd judges that for it.
        """
        try:
            return self._lease_answer(await client.lease_time_to_live(request, timeout_seconds=timeout_seconds))
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.PERMISSION_DENIED:
                raise
            refused = error
        try:
            with for_itself():
                found = await self._upstream.lease_time_to_live(request, timeout_seconds=timeout_seconds)
        except NotReady:  # What neither may see is refused as etcd refuses it to the client.
            raise refused from None
        public = without_reserved_keys(found)
        for probe in read_probes(public.keys):
            await client.txn(probe, timeout_seconds=timeout_seconds)
        return public

    async def _write(self, request: WorkerRequest, metadata: Metadata, timeout_seconds: float | None) -> Message:
        txn = as_txn(request)
        uses = examine(txn, self._gated_keys)
        assert uses is not None, "the inspector hands over writes with gated keys only"
        return _as_asked(request, await self._writes_now().carry_out(txn, uses, metadata, timeout_seconds))

    def _writes_now(self) -> GatedWrites:
        """By the policy in force. A write that is under way goes on with the policy that it began with."""
        policy = self._policy()
        if policy is not self._writes.policy:
            self._writes = replace(self._writes, policy=policy)
        return self._writes

    def _with_own_url(self, path: bytes, answer: bytes) -> bytes:
        """The members with this proxy's URL, instead of etcd's own: a client that follows those would go round it."""
        found = _MEMBERS[path].FromString(answer)
        named = [found.member] if isinstance(found, rpc_pb2.MemberAddResponse) and found.HasField("member") else []
        for member in (*named, *found.members):
            if member.clientURLs:  # None yet, where it has not started.
                member.clientURLs[:] = [self._advertise_url]
        return found.SerializeToString()


async def _as_it_is(work: GatedCall | PlainCall, client: Calls, timeout_seconds: float | None) -> bytes:
    """etcd's answer to the request as the inspector left it."""
    return await client.plain(work.path.decode(), work.request.SerializeToString(), timeout_seconds=timeout_seconds)


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
        case other:
            assert_never(other)

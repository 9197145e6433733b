"""A worker that is hard on the proxy: it registers, edits, changes, deletes and registers again, in any order.

The rule: it makes the calls that Dynamo's workers make, through the product's own handler, and says of each what came
of it and at which revision. What an answer contradicts by itself is a fault.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TypeVar

from google.protobuf.message import Message

from greenroom.pb.etcd import kv_pb2, rpc_pb2
from greenroom.relay.calls import HandedOverCall
from greenroom.serve.handlers import CallHandler
from greenroom.serve.work import GatedCall
from tests.faults.racing.process import CALL_SECONDS, LEASE_ENDED, Racer, Refused
from tests.faults.racing.words import Fault, Kind, Round
from tests.support.client import delete, get, mod_revision_is, put, version_is
from tests.support.story import Deleted, Saw, Wrote

AnswerT = TypeVar("AnswerT", bound=Message)
ACTIONS_AT_LEAST, ACTIONS_AT_MOST = 5, 10
ETCD_IS_BUSY = "waiting for the applied index took too long"
"""etcd's, of a look at a lease on a machine that does too much else. Nothing was written by then."""
REFUSALS = (LEASE_ENDED, "kept changing while it was written to", ETCD_IS_BUSY)
"""What a worker may be told: its lease ended, the race was too hot."""


class RacingWorker:
    """One of several hands of a round's worker."""

    def __init__(self, racer: Racer, handler: CallHandler, told: Round) -> None:
        self.racer, self.handler, self.round = racer, handler, told
        self.rng = told.rng(racer.name + " worker")
        self.count = 0

    async def live(self) -> None:
        actions: list[Callable[[bytes], Awaitable[None]]] = [
            *(self.create, self.create, self.create, self.create, self.swap_taints, self.swap_taints, self.change),
            *(self.put, self.read, self.delete, self.delete_loras, self.mixed),
        ]
        for _ in range(self.rng.randint(ACTIONS_AT_LEAST, ACTIONS_AT_MOST)):
            await asyncio.sleep(self.rng.uniform(0, self.round.jitter_seconds))
            await self.racer.tolerate(self.rng.choice(actions)(self._key()))  # type: ignore[arg-type]

    def _key(self) -> bytes:
        keys = [self.round.card_key, *self.round.lora_keys]
        weights = [4, *(1 for _ in self.round.lora_keys)]
        if self.round.kind is Kind.WHOLE:
            keys, weights = [*keys, self.round.instance_key], [*weights, 2]
        return self.rng.choices(keys, weights)[0]

    async def create(self, key: bytes) -> None:
        """Dynamo's registration: put where absent, else get."""
        value = self._value(key)
        answer = await self._txn([version_is(key, 0)], [self._put(key, value)], [get(key)])
        if answer.succeeded:
            self._wrote(answer.header.revision, key, value)
        elif self._saw(answer, key) is None:
            self._fault(answer.header.revision, f"{key!r} was not created, and is absent")

    async def swap_taints(self, key: bytes) -> None:
        """Dynamo's edit of taints: read, then the whole value again if nobody wrote it since."""
        if (found := await self._read(key)) is None:
            return
        value = json.loads(found.value)
        if "card_json" in value:
            value["card_json"]["runtime_config"]["taints"] = [self._mark()]
        await self._swap(found, json.dumps(value).encode())

    async def change(self, key: bytes) -> None:
        """The same with another card."""
        if (found := await self._read(key)) is not None:
            await self._swap(found, self._value(key))

    async def _swap(self, found: kv_pb2.KeyValue, value: bytes) -> None:
        await asyncio.sleep(self.rng.uniform(0, self.round.jitter_seconds))
        compare = [mod_revision_is(found.key, found.mod_revision)]
        answer = await self._txn(compare, [self._put(found.key, value)], [get(found.key)])
        if answer.succeeded:
            self._wrote(answer.header.revision, found.key, value)
        elif (now := self._saw(answer, found.key)) is not None and now.mod_revision == found.mod_revision:
            self._fault(answer.header.revision, f"{found.key!r} was not swapped, and is as it was compared")

    async def put(self, key: bytes) -> None:
        """An etcd client's plain Put."""
        value = self._value(key)
        request = rpc_pb2.PutRequest(key=key, value=value, lease=self.round.lease)
        answer = await self._call(b"/etcdserverpb.KV/Put", request, rpc_pb2.PutResponse)
        self._wrote(answer.header.revision, key, value)

    async def read(self, key: bytes) -> None:
        await self._read(key)

    async def delete(self, key: bytes) -> None:
        request = rpc_pb2.DeleteRangeRequest(key=key)
        answer = await self._call(b"/etcdserverpb.KV/DeleteRange", request, rpc_pb2.DeleteRangeResponse)
        self._deleted(answer.header.revision, key, was_there=bool(answer.deleted))

    async def delete_loras(self, _: bytes) -> None:
        """Every LoRA card by one range, in a Txn."""
        start = self.round.card_key + b"/"
        answer = await self._txn([], [delete(start, start[:-1] + b"0", prev_kv=True)], [])
        deleted = answer.responses[0].response_delete_range
        gone = {entry.key for entry in deleted.prev_kvs}
        if deleted.deleted != len(deleted.prev_kvs) or gone - {*self.round.lora_keys}:
            self._fault(answer.header.revision, f"deleted {deleted.deleted} LoRA cards: {gone}")
        for key in self.round.lora_keys:
            self._deleted(answer.header.revision, key, was_there=key in gone)

    async def mixed(self, key: bytes) -> None:
        """A gated key and one that nobody gates, in one Txn, and what that shows of both."""
        value, other = self._value(key), self.round.other_key
        operations = [self._put(key, value), put(other, value, self.round.lease), get(key), get(other)]
        answer = await self._txn([], operations, [])
        self._wrote(answer.header.revision, key, value)
        for response in answer.responses[2:]:
            if [entry.value for entry in response.response_range.kvs] != [value]:
                self._fault(answer.header.revision, f"a Txn that wrote {key!r} and {other!r} read {response}")

    async def _read(self, key: bytes) -> kv_pb2.KeyValue | None:
        answer = await self._call(b"/etcdserverpb.KV/Range", rpc_pb2.RangeRequest(key=key), rpc_pb2.RangeResponse)
        found = next(iter(answer.kvs), None)
        self._say_seen(answer.header.revision, key, found)
        return found

    def _saw(self, answer: rpc_pb2.TxnResponse, key: bytes) -> kv_pb2.KeyValue | None:
        """What the one read in a Txn's Else shows of a key."""
        found = next(iter(answer.responses[0].response_range.kvs), None)
        self._say_seen(answer.header.revision, key, found)
        return found

    def _say_seen(self, revision: int, key: bytes, found: kv_pb2.KeyValue | None) -> None:
        if found is not None and (found.key != key or found.lease != self.round.lease):
            self._fault(revision, f"{key!r} was answered as {found.key!r} on lease {found.lease:x}")
        self.racer.say(Saw(revision, self.round.instance, key, found.value if found else None))

    def _wrote(self, revision: int, key: bytes, value: bytes) -> None:
        gates = self.round.gates_of(key, self.racer.asks)
        self.racer.say(
            Wrote(
                revision,
                self.round.instance,
                key,
                value,
                gates=gates,
                kept_back=bool(gates),
                lora=key in self.round.lora_keys,
                card=self.round.is_card(key),
            )
        )

    def _deleted(self, revision: int, key: bytes, *, was_there: bool) -> None:
        instance = self.round.instance
        self.racer.say(Deleted(revision, instance, key) if was_there else Saw(revision, instance, key, None))

    def _fault(self, revision: int, text: str) -> None:
        self.racer.say(Fault(revision, self.round.instance, text))

    def _put(self, key: bytes, value: bytes) -> rpc_pb2.RequestOp:
        return put(key, value, self.round.lease)

    def _value(self, key: bytes) -> bytes:
        return self.round.value(key, self._mark(), [])

    def _mark(self) -> str:
        self.count += 1
        return f"{self.racer.name}-{self.count}"

    async def _txn(
        self, compare: list[rpc_pb2.Compare], success: list[rpc_pb2.RequestOp], failure: list[rpc_pb2.RequestOp]
    ) -> rpc_pb2.TxnResponse:
        request = rpc_pb2.TxnRequest(compare=compare, success=success, failure=failure)
        return await self._call(b"/etcdserverpb.KV/Txn", request, rpc_pb2.TxnResponse)

    async def _call(self, path: bytes, request: Message, answer_type: type[AnswerT]) -> AnswerT:
        call = HandedOverCall(path, GatedCall(path, request), (), CALL_SECONDS)
        answer = await self.handler(call)
        if answer.message is not None:
            return answer_type.FromString(answer.message)
        known = next((words for words in REFUSALS if words in answer.details), None)
        assert known is not None, f"a worker was refused with code {answer.code}: {answer.details}"
        raise Refused(known)

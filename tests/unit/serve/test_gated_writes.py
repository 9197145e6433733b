"""Gated calls between two reads of etcd: who was faster, whose lease serves already, how long it is tried."""

import json
from dataclasses import replace
from itertools import pairwise
from time import sleep
from typing import cast

import grpc
import pytest

from greenroom.core import record as records
from greenroom.core import txns
from greenroom.core.keyspace import InstanceId, Key
from greenroom.core.policy import Hold, Policy
from greenroom.core.ranges import leaves
from greenroom.core.record import ALREADY_PUBLIC, State
from greenroom.core.snapshot import MAX_READ_KEYS
from greenroom.core.worker_calls import as_txn, examine
from greenroom.errors import EtcdRefusal, FenceContended, NotReady
from greenroom.pb.etcd import rpc_pb2
from greenroom.serve.gated_writes import GatedWrites
from greenroom.serve.memory import Memory
from greenroom.store.upstream import Upstream
from tests.support.instances import (
    GATED_KEYS,
    INSTANCE,
    LEASE,
    LORA,
    NOW,
    RECORD,
    SHADOWS,
    I,
    K,
    edited,
    get,
    lora_cards,
    policy,
    put,
    value_of,
    version,
)
from tests.support.model_etcd import ModelEtcd
from tests.support.model_upstream import ModelUpstream

GOLD = edited(K, taints=["gold"])
TOKEN = (("token", "the client's"),)


class Scene:
    """The gated writes over a model etcd in which the worker's lease lives."""

    def __init__(self, rules: Policy | None = None, *, has_user: bool = False) -> None:
        self.upstream = ModelUpstream(ModelEtcd().grant(LEASE), has_user=has_user)
        self.denied: list[InstanceId] = []
        self.opened: list[InstanceId] = []
        self.ungated: list[tuple[InstanceId, str, str | None]] = []
        self.later: list[tuple[InstanceId, list[str]]] = []
        self.lost = 0
        self.writes = GatedWrites(
            cast(Upstream, self.upstream),
            GATED_KEYS,
            policy("smoke") if rules is None else rules,
            lambda: NOW,
            self.opened.append,
            lambda instance, entry: self.ungated.append((instance, entry.key, entry.model)),
            self._lost,
            self.denied.append,
            Memory(lambda: 1),
            lambda instance, record: self.later.append((instance, [entry.key for entry in record.later])),
        )

    def _lost(self) -> None:
        self.lost += 1

    async def put(self, key: Key, value: bytes, timeout_seconds: float | None = None) -> rpc_pb2.TxnResponse:
        txn = as_txn(rpc_pb2.PutRequest(key=key, value=value, lease=LEASE))
        return await self.carry_out(txn, timeout_seconds)

    async def delete(self, key: Key) -> rpc_pb2.TxnResponse:
        return await self.carry_out(as_txn(rpc_pb2.DeleteRangeRequest(key=key)))

    async def carry_out(self, txn: rpc_pb2.TxnRequest, timeout_seconds: float | None = None) -> rpc_pb2.TxnResponse:
        uses = examine(txn, GATED_KEYS)
        assert uses is not None
        return await self.writes.carry_out(txn, uses, TOKEN, timeout_seconds)

    def put_publicly(self, key: Key, value: bytes) -> None:
        """A write that went round the proxy."""
        self.upstream.etcd, _ = self.upstream.etcd.put(rpc_pb2.PutRequest(key=key, value=value, lease=LEASE))

    def forget(self) -> None:
        """Another proxy from now on, or this one after a restart."""
        self.writes.memory.keep(INSTANCE, None)

    def touch_record(self) -> None:
        """Another proxy rewrites the record."""
        value = self.upstream.etcd.items[RECORD].value
        self.upstream.etcd, _ = self.upstream.etcd.put(rpc_pb2.PutRequest(key=RECORD, value=value, lease=LEASE))

    @property
    def record(self) -> records.Record:
        return records.decode(self.upstream.etcd.items[RECORD].value, "record")


async def test_a_first_card_is_held_and_its_opening_told() -> None:
    scene = Scene()
    answer = await scene.put(K, value_of(K))
    assert answer.succeeded
    assert set(scene.upstream.etcd.items) == {RECORD, SHADOWS + K}
    assert scene.opened == [INSTANCE]
    assert scene.record.state is State.HELD


async def test_the_worker_writes_as_itself_and_the_proxy_reads_as_itself() -> None:
    scene = Scene()
    await scene.put(K, value_of(K))
    scene.forget()
    await scene.put(K, GOLD)
    assert [metadata for _, metadata in scene.upstream.sent] == [TOKEN, None, TOKEN]


async def test_a_new_instance_costs_a_look_at_its_lease_and_what_is_known_of_it_nothing() -> None:
    scene = Scene()
    await scene.put(K, value_of(K))
    assert (scene.upstream.leases_seen, len(scene.upstream.sent)) == (1, 1)
    await scene.put(K, GOLD)
    await scene.put(K, edited(K, context_length=1))
    await scene.delete(K)
    assert (scene.upstream.leases_seen, len(scene.upstream.sent)) == (1, 4)
    assert set(scene.upstream.etcd.items) == {RECORD}
    assert (scene.record.generation, scene.lost) == (2, 0)


async def test_what_is_known_and_wrong_is_read_at_once_and_counts_as_no_contention() -> None:
    """Another proxy changed the card: this one finds out by its fence, and decides by what there is."""
    scene = Scene()
    await scene.put(K, value_of(K))
    known = scene.writes.memory.recall(INSTANCE)
    await scene.put(K, edited(K, context_length=1))
    scene.writes.memory.keep(INSTANCE, known)
    await scene.put(K, value_of(K))
    assert scene.lost == 0
    assert scene.record.generation == 3
    assert [metadata for _, metadata in scene.upstream.sent[2:]] == [TOKEN, None, TOKEN]


async def test_an_etcd_that_did_not_answer_leaves_nothing_known() -> None:
    """The write may have happened."""
    scene = Scene()
    await scene.put(K, value_of(K))
    scene.upstream.etcd = scene.upstream.etcd.revoke(LEASE)
    with pytest.raises(grpc.aio.AioRpcError, match="lease not found"):
        await scene.put(K, GOLD)
    assert scene.writes.memory.recall(INSTANCE) is None


async def test_a_card_that_lies_publicly_on_no_lease_is_read_before_it_is_edited() -> None:
    """The lease does not show it, so the instance looks new, and is not."""
    scene = Scene()
    scene.upstream.etcd, _ = scene.upstream.etcd.put(rpc_pb2.PutRequest(key=K, value=value_of(K)))
    assert (await scene.put(K, GOLD)).succeeded
    assert scene.upstream.etcd.items[K].value == GOLD


async def test_nothing_is_refused_for_what_is_only_remembered() -> None:
    """It is thought to be released, and a new card refused; another proxy withdrew it meanwhile."""
    scene = Scene()
    await scene.put(K, value_of(K))
    known = scene.writes.memory.recall(INSTANCE)
    assert known is not None
    assert known.record is not None
    released = known.record.model_copy(update={"state": State.RELEASED})
    scene.writes.memory.keep(INSTANCE, replace(known, record=released, shadows={}, asked=frozenset({K, LORA})))
    assert (await scene.put(LORA, value_of(LORA))).succeeded
    assert SHADOWS + LORA in scene.upstream.etcd.items


async def test_another_proxy_was_faster_and_the_call_is_decided_again() -> None:
    scene = Scene()
    await scene.put(K, value_of(K))
    scene.forget()

    def other_proxy(sent: int) -> None:
        if sent == 2:  # between the read and the Txn of the edit
            scene.touch_record()

    scene.upstream.between = other_proxy
    answer = await scene.put(K, edited(K, taints=["gold"]))
    assert answer.succeeded
    assert scene.lost == 1
    assert scene.upstream.etcd.items[SHADOWS + K].value == edited(K, taints=["gold"])


async def test_a_record_that_never_rests_ends_the_call_with_its_deadline() -> None:
    scene = Scene()
    await scene.put(K, value_of(K))
    scene.upstream.between = lambda _: scene.touch_record()
    with pytest.raises(FenceContended, match=INSTANCE):
        await scene.put(K, edited(K, taints=["gold"]), timeout_seconds=0)
    assert scene.upstream.etcd.items[SHADOWS + K].value == value_of(K)


async def test_the_first_edit_of_a_live_worker_opens_its_record_as_public() -> None:
    scene = Scene()
    scene.put_publicly(K, value_of(K))
    await scene.put(K, edited(K, taints=["gold"]))
    assert (scene.record.state, scene.record.reason, scene.record.keys) == (State.RELEASED, ALREADY_PUBLIC, (K,))
    assert scene.upstream.etcd.items[K].value == edited(K, taints=["gold"])
    assert scene.opened == []
    assert scene.lost == 0


async def test_unregistering_a_live_worker_opens_its_record_as_public_too() -> None:
    scene = Scene()
    scene.put_publicly(K, value_of(K))
    scene.put_publicly(LORA, value_of(LORA))
    await scene.delete(LORA)
    assert scene.record.keys == (K, LORA)
    assert set(scene.upstream.etcd.items) == {RECORD, K}


async def test_a_live_worker_that_no_rule_matches_gets_no_record() -> None:
    scene = Scene(policy())
    scene.put_publicly(K, value_of(K))
    await scene.put(K, edited(K, taints=["gold"]))
    assert set(scene.upstream.etcd.items) == {K}


async def test_public_cards_that_no_rule_matches_do_not_make_a_new_ones_instance_public() -> None:
    """A LoRA rule appeared: the base card was never gated and serves, the first LoRA card is held."""
    scene = Scene(policy("smoke", suffix="lora-a"))
    scene.put_publicly(K, value_of(K))
    await scene.put(LORA, value_of(LORA))
    assert scene.record.state is State.HELD
    assert set(scene.upstream.etcd.items) == {RECORD, K, SHADOWS + LORA}


async def test_an_adoption_that_came_too_late_is_decided_again_and_opens_nothing_held() -> None:
    """The live worker edits its card past the proxy just as it is taken on: it must not be taken for a new one."""
    scene = Scene()
    scene.put_publicly(K, value_of(K))

    def past_the_proxy(sent: int) -> None:
        if sent == 2:  # the adoption itself
            scene.put_publicly(K, edited(K, taints=["silver"]))

    scene.upstream.between = past_the_proxy
    await scene.put(K, edited(K, taints=["gold"]))
    assert (scene.record.state, scene.record.reason) == (State.RELEASED, ALREADY_PUBLIC)
    assert scene.opened == []


async def test_what_was_public_before_the_first_card_is_named_so_that_a_withdrawal_takes_it_too() -> None:
    """The rule came between the worker's instance record and its card."""
    scene = Scene(policy("smoke", hold=Hold.CARD_AND_INSTANCE, component="pyw"))
    scene.put_publicly(I, value_of(I))
    await scene.put(K, value_of(K))
    assert scene.record.state is State.HELD
    assert scene.record.keys == (I, K)
    assert set(scene.upstream.etcd.items) == {RECORD, I, SHADOWS + K}


async def test_a_live_worker_that_registers_another_model_keeps_serving_and_the_later_card_is_held_and_told() -> None:
    scene = Scene()
    scene.put_publicly(LORA, value_of(LORA))
    for value in (value_of(K), edited(K, taints=["gold"]), edited(K, context_length=1)):
        assert (await scene.put(K, value)).succeeded
        assert set(scene.upstream.etcd.items) == {RECORD, LORA, SHADOWS + K}
    assert (scene.record.state, scene.record.reason) == (State.RELEASED, ALREADY_PUBLIC)
    assert scene.record.gates["smoke"].attempt == 3
    assert (scene.opened, scene.later) == ([], [(INSTANCE, [K.decode()])])
    scene.forget()
    await scene.delete(K)
    assert set(scene.upstream.etcd.items) == {RECORD, LORA}


async def test_a_card_that_no_rule_matches_is_told_each_time_it_is_written() -> None:
    """A typing error in a selector lets every worker through: somebody must see it."""
    scene = Scene(policy("smoke", model="tinny-*"))
    await scene.put(K, value_of(K))
    await scene.put(K, edited(K, taints=["gold"]))
    assert set(scene.upstream.etcd.items) == {K}
    assert scene.ungated == [(INSTANCE, K.decode(), json.loads(value_of(K))["card_json"]["display_name"])] * 2


async def test_a_write_without_a_value_is_judged_by_the_value_that_is_there() -> None:
    scene = Scene(policy("smoke", model="tinny-*"))
    scene.put_publicly(K, value_of(K))
    await scene.carry_out(as_txn(rpc_pb2.PutRequest(key=K, lease=LEASE, ignore_value=True)))
    assert [key for _, key, _ in scene.ungated] == [K.decode()]


async def test_what_is_held_adopted_or_only_an_instance_record_is_not_told_as_ungated() -> None:
    held = Scene()
    await held.put(K, value_of(K))
    await held.put(K, edited(K, taints=["gold"]))
    live = Scene()
    live.put_publicly(K, value_of(K))
    await live.put(K, edited(K, taints=["gold"]))
    plain = Scene(policy("smoke", hold=Hold.CARD_AND_INSTANCE, component="other"))
    await plain.put(I, value_of(I))
    assert set(plain.upstream.etcd.items) == {I}
    assert (held.ungated, live.ungated, plain.ungated) == ([], [], [])


async def test_a_compare_of_the_clients_that_fails_writes_nothing_and_tells_nothing() -> None:
    scene = Scene(policy("smoke", model="tinny-*"))
    scene.put_publicly(K, value_of(K))
    txn = as_txn(rpc_pb2.PutRequest(key=K, value=value_of(K), lease=LEASE))
    txn.compare.add(key=K, target=rpc_pb2.Compare.VERSION, version=0)
    assert not (await scene.carry_out(txn)).succeeded
    assert scene.ungated == []


async def test_every_call_to_etcd_has_what_is_left_of_the_clients_time() -> None:
    """A read, then a Txn, again and again: with the whole time for each, the client would long be gone."""
    scene = Scene()
    await scene.put(K, value_of(K))
    scene.forget()
    spent = iter((0.02, 0.02, 0.02, 0.02))

    def slow(sent: int) -> None:
        sleep(next(spent, 0))
        if sent == 2:
            scene.touch_record()

    scene.upstream.between = slow
    await scene.put(K, edited(K, taints=["gold"]), timeout_seconds=2.0)
    left = scene.upstream.timeouts_seconds[1:]
    assert len(left) == 4
    assert all(before - after >= 0.02 for before, after in pairwise(cast("list[float]", left)))
    assert cast(float, left[0]) <= 2.0


async def test_without_a_deadline_of_the_clients_etcd_takes_its_time() -> None:
    scene = Scene()
    await scene.put(K, value_of(K))
    assert scene.upstream.timeouts_seconds == [None]


async def test_a_live_worker_with_more_cards_than_one_read_can_see_is_not_taken_on_in_part() -> None:
    scene = Scene()
    for key in lora_cards(MAX_READ_KEYS + 1):
        scene.put_publicly(key, value_of(key))
    with pytest.raises(EtcdRefusal, match="too many operations"):
        await scene.put(K, value_of(K))
    assert RECORD not in scene.upstream.etcd.items


def upsert(compare: rpc_pb2.Compare, *otherwise: rpc_pb2.RequestOp) -> rpc_pb2.TxnRequest:
    """A card is put where the compare holds, something else written where it does not."""
    return rpc_pb2.TxnRequest(compare=[compare], success=[put(K)], failure=otherwise)


async def test_an_else_that_writes_is_sent_alone_and_told_as_one() -> None:
    """The proxy's reads are its own, what the client compares and writes is read, judged and written as the client."""
    scene = Scene()
    await scene.put(K, value_of(K))
    done = len(scene.upstream.sent)
    answer = await scene.carry_out(upsert(version(K), put(K, GOLD), get(K)))
    assert (answer.succeeded, len(answer.responses)) == (False, 2)
    assert answer.responses[1].response_range.kvs[0].value == scene.upstream.etcd.items[SHADOWS + K].value == GOLD
    assert [metadata for _, metadata in scene.upstream.sent[done:]] == [None, TOKEN, TOKEN]
    await scene.carry_out(upsert(version(b"other", 1), put(b"other", b"", lease=0)))
    assert [metadata for _, metadata in scene.upstream.sent[done + 3 :]] == [None, TOKEN, TOKEN, TOKEN]


async def test_the_branch_that_runs_is_decided_from_the_read_that_chose_it() -> None:
    """One read, one Txn for etcd to judge what does not run, and the branch; whether the instance is known or not."""
    scene = Scene()
    await scene.put(K, value_of(K))
    txn = upsert(version(K), put(K, GOLD))
    for forget in (scene.forget, lambda: None):
        forget()
        before = len(scene.upstream.sent)
        await scene.carry_out(txn)
        assert [metadata for _, metadata in scene.upstream.sent[before:]] == [None, TOKEN, TOKEN]
    assert scene.upstream.etcd.items[SHADOWS + K].value == GOLD


async def test_a_branch_that_came_too_late_is_decided_again() -> None:
    """Another client writes the compared key between the look and the Txn: what was to be Then has become Else."""
    scene = Scene()
    create = upsert(version(b"other"), put(K, GOLD))

    def other_client(sent: int) -> None:
        if sent == 2:  # after the two reads
            scene.upstream.etcd, _ = scene.upstream.etcd.put(rpc_pb2.PutRequest(key=b"other"))

    scene.upstream.between = other_client
    answer = await scene.carry_out(create)
    assert not answer.succeeded
    assert scene.upstream.etcd.items[SHADOWS + K].value == GOLD
    assert scene.lost == 1


async def test_a_branch_without_gated_keys_that_came_too_late_is_decided_again() -> None:
    scene = Scene()

    def other_client(sent: int) -> None:
        if sent == 3:  # before the Else itself
            scene.upstream.etcd, _ = scene.upstream.etcd.put(rpc_pb2.PutRequest(key=b"other"))

    scene.upstream.between = other_client
    answer = await scene.carry_out(upsert(version(b"other", 1), put(b"lost", b"", lease=0)))
    assert answer.succeeded
    assert set(scene.upstream.etcd.items) == {RECORD, SHADOWS + K, b"other"}
    assert scene.lost == 1


def denying(scene: Scene, *keys: Key) -> None:
    """etcd permits clients nothing on these keys."""
    scene.upstream.denies = lambda txn: any(leaf.key in keys for leaf in leaves(txn))


async def test_where_the_proxy_has_rights_etcd_is_asked_first_whether_the_client_has() -> None:
    scene = Scene(has_user=True)
    await scene.put(K, value_of(K))
    probe, *_, write = scene.upstream.sent
    assert (probe[1], write[1]) == (TOKEN, TOKEN)
    assert probe[0].failure == as_txn(rpc_pb2.PutRequest(key=K, value=value_of(K), lease=LEASE)).success
    assert set(scene.upstream.etcd.items) == {RECORD, SHADOWS + K}


async def test_for_who_may_not_write_the_key_nothing_is_read_nor_decided() -> None:
    scene = Scene(has_user=True)
    denying(scene, K)
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await scene.put(K, value_of(K))
    assert raised.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert [metadata for _, metadata in scene.upstream.sent] == [TOKEN]
    assert scene.denied == []


async def test_who_may_write_the_key_and_not_have_it_held_is_told_of() -> None:
    scene = Scene(has_user=True)
    denying(scene, RECORD, Key(SHADOWS + K))
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await scene.put(K, value_of(K))
    assert raised.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert scene.denied == [INSTANCE]
    assert scene.upstream.etcd.items == {}


async def test_who_may_not_see_what_is_held_compares_and_reads_what_is_public() -> None:
    scene = Scene(has_user=True)
    await scene.put(K, value_of(K))
    denying(scene, RECORD, Key(SHADOWS + K))
    answer = await scene.carry_out(rpc_pb2.TxnRequest(compare=[txns.exists(K)], failure=[txns.look(K)]))
    assert not answer.succeeded
    assert answer.responses[0].response_range.count == 0
    assert scene.denied == []


async def test_what_the_proxy_itself_may_not_is_not_told_as_the_clients() -> None:
    """A worker would look for the mistake in its own rights."""
    scene = Scene(has_user=True)

    async def denied(*_: object, **__: object) -> rpc_pb2.TxnResponse:
        raise grpc.aio.AioRpcError(grpc.StatusCode.PERMISSION_DENIED, details="etcdserver: permission denied")

    scene.upstream.txn = scene.upstream.lease_time_to_live = denied  # type: ignore[method-assign,assignment]
    with pytest.raises(NotReady, match="refuses the proxy itself: etcdserver: permission denied"):
        await scene.put(K, value_of(K))

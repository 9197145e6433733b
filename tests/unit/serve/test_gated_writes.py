"""Gated calls between two reads of etcd: who was faster, whose lease serves already, how long it is tried."""

import json
from itertools import pairwise
from time import sleep
from typing import cast

import pytest

from greenroom.core import record as records
from greenroom.core.keyspace import InstanceId, Key
from greenroom.core.policy import Hold, Policy
from greenroom.core.record import ALREADY_PUBLIC, State
from greenroom.core.snapshot import MAX_READ_KEYS
from greenroom.core.worker_calls import as_txn, examine
from greenroom.errors import EtcdRefusal, FenceContended
from greenroom.pb.etcd import rpc_pb2
from greenroom.serve.gated_writes import GatedWrites
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
    lora_cards,
    policy,
    value_of,
)
from tests.support.model_etcd import ModelEtcd
from tests.support.model_upstream import ModelUpstream

TOKEN = (("token", "the client's"),)


class Scene:
    """The gated writes over a model etcd in which the worker's lease lives."""

    def __init__(self, rules: Policy | None = None) -> None:
        self.upstream = ModelUpstream(ModelEtcd().grant(LEASE))
        self.opened: list[InstanceId] = []
        self.ungated: list[tuple[InstanceId, str, str | None]] = []
        self.lost = 0
        self.writes = GatedWrites(
            cast(Upstream, self.upstream),
            GATED_KEYS,
            policy("smoke") if rules is None else rules,
            lambda: NOW,
            self.opened.append,
            lambda instance, entry: self.ungated.append((instance, entry.key, entry.model)),
            self._lost,
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
    assert [metadata for _, metadata in scene.upstream.sent] == [(), TOKEN]


async def test_another_proxy_was_faster_and_the_call_is_decided_again() -> None:
    scene = Scene()
    await scene.put(K, value_of(K))

    def other_proxy(sent: int) -> None:
        if sent == 3:  # between the read and the Txn of the edit
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
    spent = iter((0.02, 0.02, 0.02, 0.02))

    def slow(sent: int) -> None:
        sleep(next(spent, 0))
        if sent == 3:
            scene.touch_record()

    scene.upstream.between = slow
    await scene.put(K, edited(K, taints=["gold"]), timeout_seconds=2.0)
    left = scene.upstream.timeouts_seconds[2:]
    assert len(left) == 4
    assert all(before - after >= 0.02 for before, after in pairwise(cast("list[float]", left)))
    assert cast(float, left[0]) <= 2.0


async def test_without_a_deadline_of_the_clients_etcd_takes_its_time() -> None:
    scene = Scene()
    await scene.put(K, value_of(K))
    assert scene.upstream.timeouts_seconds == [None, None]


async def test_a_live_worker_with_more_cards_than_one_read_can_see_is_not_taken_on_in_part() -> None:
    scene = Scene()
    for key in lora_cards(MAX_READ_KEYS + 1):
        scene.put_publicly(key, value_of(key))
    with pytest.raises(EtcdRefusal, match="too many operations"):
        await scene.put(K, value_of(K))
    assert RECORD not in scene.upstream.etcd.items

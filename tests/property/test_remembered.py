"""What is remembered of an instance against what is read: a call does the same from both, or its fence is lost.

Two proxies, verdicts, withdrawals, writers past both and the end of the lease come in any order; what one proxy
remembers is from any moment before.
"""

from collections.abc import Callable, Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom.core.gating import Gated, LookAtLease, gate_call
from greenroom.core.keyspace import Key
from greenroom.core.remembered import after, is_enough, newborn
from greenroom.core.restore import FenceLost, settle
from greenroom.core.snapshot import Snapshot, read_request, snapshot_from
from greenroom.core.transitions import Outcome
from greenroom.core.verdicts import MoreKeys, Planned, Planner, verdict, withdrawal
from greenroom.core.worker_calls import Uses, examine
from greenroom.errors import GreenroomError
from greenroom.pb.etcd import kv_pb2, rpc_pb2
from tests.support.instances import (
    GATED_KEYS,
    INSTANCE,
    LEASE,
    LORA,
    NOW,
    I,
    K,
    create_txn,
    delete,
    edit_txn,
    edited,
    get,
    policy,
    put,
    value_of,
    version,
)
from tests.support.model_etcd import ModelEtcd, Refusal

POLICIES = [
    policy("smoke"),
    policy("smoke", hold="card+instance", component="pyw"),
    policy("smoke", hold="health"),
    policy("smoke", model="lora-*"),
    policy(),
]
KEYS = (K, LORA, I)

cards = st.sampled_from([value_of(K), edited(K, taints=["a"]), edited(K, taints=["b"]), edited(K, context_length=1)])
values = {K: cards, LORA: st.sampled_from([value_of(LORA), edited(LORA, taints=["a"])]), I: st.just(value_of(I))}
keys = st.sampled_from([K, K, K, LORA, I])
Txns = st.SearchStrategy[rpc_pb2.TxnRequest]


def then(*operations: rpc_pb2.RequestOp) -> rpc_pb2.TxnRequest:
    return rpc_pb2.TxnRequest(success=operations)


creates: Txns = keys.flatmap(lambda key: st.builds(create_txn, st.just(key), values[key]))
puts: Txns = keys.flatmap(lambda key: values[key].map(lambda value: then(put(key, value, prev_kv=True))))
swaps: Txns = keys.flatmap(lambda key: st.builds(edit_txn, st.just(key), st.integers(2, 9), values[key]))
deletes: Txns = keys.map(lambda key: then(delete(key, prev_kv=True), get(key)))
reads: Txns = keys.map(lambda key: then(get(key)))
same: Txns = keys.map(lambda key: then(put(key, b"", ignore_value=True)))
twos: Txns = st.builds(lambda one, other: then(put(K, one), put(LORA, other)), cards, values[LORA])
wide: Txns = st.sampled_from([then(put(I), delete(K, K + b"0")), then(delete(b"v1/mdc/", b"v1/mdc0"), get(K))])
mixed: Txns = cards.map(
    lambda card: rpc_pb2.TxnRequest(compare=[version(b"other")], success=[put(K, card), put(b"other", b"", lease=0)])
)
calls = st.one_of(creates, puts, puts, swaps, deletes, reads, same, twos, wide, mixed)


class Story:
    """One etcd, and what the first proxy remembers."""

    def __init__(self, rules: int) -> None:
        self.policy = POLICIES[rules]
        self.etcd = ModelEtcd().grant(LEASE)
        self.memory: Snapshot | None = None
        self.judged = 0

    def call(self, txn: rpc_pb2.TxnRequest, *, remembers: bool) -> None:
        uses = examine(txn, GATED_KEYS)
        if uses is None:
            return
        known, new = (self.known(txn, uses), self.memory is None) if remembers else (None, False)
        guessed = self.sent(txn, uses, known, new=new) if known else None
        seen = self.read(tuple(uses.keys))
        done = self.sent(txn, uses, seen, new=True)
        from_memory = guessed is not None and self.judge(guessed, done)
        if done is None:
            return
        etcd, planned, answer = guessed if guessed and from_memory else done
        self.etcd = etcd
        if remembers:
            lost = isinstance(settle(planned, answer), FenceLost)
            self.memory = None if lost else after(known if known and from_memory else seen, planned, answer)
            self.check_memory(uses)

    def judge(self, guessed: "Sent", done: "Sent | None") -> bool:
        """Whether what was planned from memory is the call's answer."""
        etcd, planned, answer = guessed
        settled = settle(planned, answer)
        if isinstance(settled, FenceLost):
            assert etcd is self.etcd, "the fence is lost, and something was written"
            return False
        assert done is not None, "done from memory, and refused after a read"
        assert settled == settle(done[1], done[2])
        assert {**etcd.items} == {**done[0].items}
        self.judged += 1
        return True

    def known(self, txn: rpc_pb2.TxnRequest, uses: Uses) -> Snapshot | None:
        found = self.memory
        if found is None:
            lease = rpc_pb2.LeaseTimeToLiveResponse(keys=self.etcd.lease_keys(LEASE))
            lease.header.revision = self.etcd.revision
            found = newborn(INSTANCE, uses.keys, lease, GATED_KEYS)
        return found if found and is_enough(found, txn, uses) else None

    def sent(self, txn: rpc_pb2.TxnRequest, uses: Uses, seen: Snapshot, *, new: bool) -> "Sent | None":
        """None where it is refused, or not planned."""
        try:
            planned = gate_call(txn, uses, seen, GATED_KEYS, self.policy, NOW, lease_was_seen=new)
            if isinstance(planned, LookAtLease):
                return None
            return (*self.etcd.txn(planned.txn)[:1], planned, self.etcd.txn(planned.txn)[1])
        except (GreenroomError, Refusal):
            return None

    def read(self, keys: tuple[Key, ...]) -> Snapshot:
        return snapshot_from(INSTANCE, keys, self.etcd.txn(read_request(INSTANCE, keys))[1])

    def check_memory(self, uses: Uses) -> None:
        """Just after its own call, what is remembered is what there is, of all that had a part in the call.

        A public key had none where the call did not use it, nor where there is a shadow of it.
        """
        if self.memory is None:
            return
        there = self.read(tuple(uses.keys))
        assert (self.memory.record, self.memory.record_revision) == (there.record, there.record_revision)
        assert contents(self.memory.shadows) == contents(there.shadows)
        for key in uses.keys.keys() - there.shadows.keys():
            remembered, found = ({key: seen.public[key]} if key in seen.public else {} for seen in (self.memory, there))
            assert contents(remembered) == contents(found)

    def operate(self, planner: Planner) -> None:
        seen = self.read(())
        try:
            plan = planner(seen, NOW)
            if isinstance(plan, MoreKeys):
                plan = planner(self.read(seen.read_again()), NOW)
        except GreenroomError:
            return
        if isinstance(plan, Planned):
            self.etcd, _ = self.etcd.txn(plan.txn)

    def pass_gate(self) -> None:
        record = self.read(()).record
        if record is not None and "smoke" in record.gates:
            attempt = record.gates["smoke"].attempt
            self.operate(verdict("smoke", attempt, Outcome.PASSED, reason="", reporter="a test"))

    def withdraw(self) -> None:
        self.operate(withdrawal("somebody", "because", by_person=False))

    def past_it(self, txn: rpc_pb2.TxnRequest) -> None:
        """Straight to etcd."""
        try:
            self.etcd, _ = self.etcd.txn(txn)
        except Refusal:
            return

    def end(self) -> None:
        self.etcd = self.etcd.revoke(LEASE).grant(LEASE)


def contents(kvs: Mapping[Key, kv_pb2.KeyValue]) -> dict[Key, tuple[bytes, bytes, int]]:
    return {key: (kv.key, kv.value, kv.mod_revision) for key, kv in kvs.items()}


Sent = tuple[ModelEtcd, Gated, rpc_pb2.TxnResponse]
Step = Callable[[Story], None]

steps: st.SearchStrategy[Step] = st.one_of(
    calls.map(lambda txn: lambda story: story.call(txn, remembers=True)),
    calls.map(lambda txn: lambda story: story.call(txn, remembers=True)),
    calls.map(lambda txn: lambda story: story.call(txn, remembers=True)),
    calls.map(lambda txn: lambda story: story.call(txn, remembers=False)),
    st.sampled_from([Story.pass_gate, Story.pass_gate, Story.withdraw, Story.end]),
    st.one_of(puts, deletes).map(lambda txn: lambda story: story.past_it(txn)),
)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(POLICIES) - 1), st.lists(steps, min_size=2, max_size=12))
def test_a_call_does_the_same_from_memory_as_from_a_read_or_its_fence_is_lost(rules: int, run: list[Step]) -> None:
    story = Story(rules)
    for step in run:
        step(story)


def test_a_workers_usual_life_is_planned_from_memory() -> None:
    """What the property above would not notice if nothing were ever remembered."""
    story = Story(0)
    for txn in (create_txn(K), then(put(K, edited(K, taints=["a"]))), then(put(K, edited(K, context_length=1)))):
        story.call(txn, remembers=True)
    assert story.judged == 3
    story.pass_gate()
    story.call(then(put(K, edited(K, taints=["b"]))), remembers=True)
    assert story.judged == 3, "the release made it wrong"
    story.call(then(put(K, edited(K, taints=["a"]))), remembers=True)
    story.call(then(delete(K)), remembers=True)
    assert story.judged == 5

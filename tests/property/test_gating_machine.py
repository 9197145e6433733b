"""Two proxies before one etcd, a plain etcd beside them, and anything that can happen to workers, in any order.

The rule: whatever a worker calls through a proxy, its twin calls on the plain etcd, and both get the same answer. What
the public saw of it all is held against the guarantees at the end. The proxies are the program itself, and are killed.
"""

import asyncio
import itertools
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import grpc
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from greenroom.core.transitions import overridden, rejected, retried
from greenroom.core.verdicts import Planner, edit, withdrawal
from greenroom.errors import UnknownInstance, WrongState
from greenroom.pb.control.v1 import control_pb2
from greenroom.pb.etcd import rpc_pb2
from greenroom.store.fenced import CarriedOut
from tests.faults.racing.judge import Life, verdict_on
from tests.faults.racing.words import POLICY, Kind, Round
from tests.support.client import Compare, EtcdClient, get, put, version_is
from tests.support.control import CALL_SECONDS, Control
from tests.support.pairing import Pairing, Side, Stage, Subject, launched_stage
from tests.support.steps import as_read, carried_out, hold_request, states, tainted, verdict_request
from tests.support.story import Decided, Overrode, Rejected, Retried, Withdrew
from tests.support.twin import Call, refusal
from tests.support.waiting import wait_for

EXAMPLES = 12
STEPS = 30
MAX_LIVES = 3
MAX_KILLS = 4
"""In all: a start takes a second or two."""
AT_LEAST = {"RELEASED": 24, "WITHDRAWN": 16, "REJECTED": 12, "HELD": 20}
"""So often records must have come to these states, or the machine does not show what it is there for."""
HOLD_IDS = ("first", "second")

numbers = itertools.count()
picks = st.integers(0, 11)
sides = st.booleans()
kinds = st.sampled_from([Kind.SMOKED, Kind.WHOLE, Kind.SMOKED, Kind.LIVE, Kind.FREE])


compared = st.sampled_from([Compare.MOD, Compare.MOD, Compare.CREATE, Compare.VALUE, Compare.LEASE])


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with launched_stage(tmp_path_factory.mktemp("machine"), POLICY) as stage:
        yield stage


class GatingMachine(RuleBasedStateMachine):
    """What follows is one rule a thing that somebody does."""

    stage: Stage

    @initialize(kinds=st.tuples(kinds, kinds))
    def begin(self, kinds: tuple[Kind, Kind]) -> None:
        for side in self.stage.sides:
            if not side.running:
                side.start()
        self.pairing = Pairing(self.stage.etcd, self.stage.plain)
        self.subjects: list[Subject] = []
        # Whether a rule can be chosen must depend on this run's own steps alone: the stage is all runs'.
        self.killed = self.down = self.looked = False
        self.held: set[str] = set()
        for kind in kinds:
            self.start_worker(kind, True)

    # ---- workers ----------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.subjects) < MAX_LIVES)
    @rule(kind=kinds, side=sides)
    def start_worker(self, kind: Kind, side: bool) -> None:
        this = next(one for one in (Round(0, number) for number in numbers) if one.kind is kind)
        subject = Subject(Life(this))
        self.pairing.start(subject, self._client(side))
        self.subjects.append(subject)
        if kind is Kind.LIVE:
            self.pairing.serve_already(subject)

    @precondition(lambda self: self.subjects)
    @rule(who=picks, what=picks, side=sides)
    def create(self, who: int, what: int, side: bool) -> None:
        subject, key = self._key(who, what)
        value = self._value(subject, key)
        txn = rpc_pb2.TxnRequest(
            compare=[version_is(key, 0)], success=[put(key, value, subject.round.lease)], failure=[get(key)]
        )
        self._both(subject, txn, side)

    @precondition(lambda self: self.subjects)
    @rule(who=picks, what=picks, side=sides, prev=st.booleans())
    def put(self, who: int, what: int, side: bool, prev: bool) -> None:
        subject, key = self._key(who, what)
        value = self._value(subject, key)
        self._both(subject, rpc_pb2.PutRequest(key=key, value=value, lease=subject.round.lease, prev_kv=prev), side)

    @precondition(lambda self: self.subjects)
    @rule(who=picks, what=picks, side=sides, only_taints=st.booleans(), reads_first=st.booleans(), by=compared)
    def swap(self, who: int, what: int, side: bool, only_taints: bool, reads_first: bool, by: int) -> None:
        """Compare-and-swap on what was read just now, or some time ago."""
        subject, key = self._key(who, what)
        if reads_first:
            self._both(subject, rpc_pb2.RangeRequest(key=key), not side)
        if (seen := subject.read.get(key)) is None:
            return
        value = self._value(subject, key)
        if only_taints and subject.round.is_card(key):
            value = tainted(seen.value, str(next(numbers)))
        txn = rpc_pb2.TxnRequest(
            compare=[as_read(seen, by)], success=[put(key, value, subject.round.lease)], failure=[get(key)]
        )
        self._both(subject, txn, side)

    @precondition(lambda self: self.subjects)
    @rule(who=picks, what=picks, side=sides)
    def put_with_nothing_new(self, who: int, what: int, side: bool) -> None:
        """The value stays, as a client says that only wants to be written again; then the lease stays."""
        subject, key = self._key(who, what)
        if subject.ended:
            # Of an absent key and an ended lease, etcd names the lease in a Put and the key in a Txn; ours is a Txn.
            return
        self._both(subject, rpc_pb2.RangeRequest(key=key), side)
        self._both(subject, rpc_pb2.PutRequest(key=key, lease=subject.round.lease, ignore_value=True), side)
        value = self._value(subject, key)
        self._both(subject, rpc_pb2.PutRequest(key=key, value=value, ignore_lease=True), not side)

    @precondition(lambda self: self.subjects)
    @rule(who=picks, what=picks, side=sides, prev=st.booleans(), loras=st.booleans())
    def delete(self, who: int, what: int, side: bool, prev: bool, loras: bool) -> None:
        """One key, or all LoRA cards by one range."""
        subject, key = self._key(who, what)
        first, end = subject.round.card_key + b"/", subject.round.card_key + b"0"
        every = rpc_pb2.DeleteRangeRequest(key=first, range_end=end, prev_kv=True)
        self._both(subject, every if loras else rpc_pb2.DeleteRangeRequest(key=key, prev_kv=prev), side)

    @precondition(lambda self: self.subjects)
    @rule(who=picks, what=picks, side=sides, option=st.sampled_from(["", "keys_only", "count_only"]))
    def read(self, who: int, what: int, side: bool, option: str) -> None:
        subject, key = self._key(who, what)
        request = rpc_pb2.RangeRequest(key=key)
        if option:
            setattr(request, option, True)
        self._both(subject, request, side)

    @precondition(lambda self: self.subjects)
    @rule(who=picks, what=picks, side=sides)
    def mixed(self, who: int, what: int, side: bool) -> None:
        """A Txn of gated and other keys."""
        subject, key = self._key(who, what)
        value, other, lease = self._value(subject, key), subject.round.other_key, subject.round.lease
        txn = rpc_pb2.TxnRequest(
            compare=[version_is(other, 0)],
            success=[put(other, value, lease), put(key, value, lease, prev_kv=True), get(key), get(other)],
            failure=[get(key), get(other), get(subject.round.card_key, keys_only=True)],
        )
        self._both(subject, txn, side)

    @precondition(lambda self: self.subjects)
    @rule(who=picks, what=picks, side=sides, by=compared, writes_over=st.booleans())
    def swap_or_else(self, who: int, what: int, side: bool, by: int, writes_over: bool) -> None:
        """A creation or a swap whose Else writes too: over what is there, or a note of having lost."""
        subject, key = self._key(who, what)
        seen, other, lease = subject.read.get(key), subject.round.other_key, subject.round.lease
        note = put(key, self._value(subject, key), lease, prev_kv=True) if writes_over else put(other, b"lost", lease)
        txn = rpc_pb2.TxnRequest(
            compare=[version_is(key, 0) if seen is None else as_read(seen, by)],
            success=[put(key, self._value(subject, key), lease), put(other, b"won", lease)],
            failure=[note, get(key), get(other)],
        )
        self._both(subject, txn, side)

    @precondition(lambda self: self.subjects)
    @rule(who=picks, side=sides)
    def look_at_lease(self, who: int, side: bool) -> None:
        lease = self._subject(who).round.lease
        mine, twins = self._client(side).time_to_live(lease), self.pairing.plain.time_to_live(lease)
        assert (sorted(mine.keys), mine.grantedTTL) == (sorted(twins.keys), twins.grantedTTL)

    @precondition(lambda self: self.subjects)
    @rule(who=picks, side=sides)
    def end_lease(self, who: int, side: bool) -> None:
        subject = self._subject(who)
        if not subject.ended:
            self.pairing.end(subject, self._client(side))

    # ---- reporters and operators ------------------------------------------------------------------------------------

    @precondition(lambda self: self.subjects)
    @rule(who=picks, side=sides)
    def look(self, who: int, side: bool) -> None:
        self.looked = True
        subject = self._subject(who)
        if found := self._asked(lambda: self._control(side).instance(subject.instance)):
            subject.looks.append(found)

    @precondition(lambda self: self.looked)
    @rule(who=picks, when=picks, gate=picks, side=sides, outcome=st.sampled_from(["passed"] * 5 + ["failed", "error"]))
    def report(self, who: int, when: int, gate: int, side: bool, outcome: str) -> None:
        """A verdict for what was seen just now, or long ago; repeated ones come by themselves."""
        subject = self._subject(who)
        if subject.looks:
            look = subject.looks[-1] if when < 9 else subject.looks[when % len(subject.looks)]
            self._report(subject, look, look.gates[gate % len(look.gates)], outcome, side)

    @precondition(lambda self: self.subjects)
    @rule(who=picks, side=sides)
    def pass_all(self, who: int, side: bool) -> None:
        """A reporter who looks and finds nothing wrong."""
        subject = self._subject(who)
        look = self._asked(lambda: self._control(side).instance(subject.instance))
        for status in look.gates if look else ():
            if status.state != control_pb2.GATE_STATE_PASSED:
                self._report(subject, look, status, "passed", side)

    @precondition(lambda self: self.subjects)
    @rule(who=picks, side=sides)
    def fail_one(self, who: int, side: bool) -> None:
        subject = self._subject(who)
        look = self._asked(lambda: self._control(side).instance(subject.instance))
        if look and look.gates:
            self._report(subject, look, look.gates[0], "failed", side)

    def _report(self, subject: Subject, look: Any, status: Any, outcome: str, side: bool) -> None:
        again = self._has_passed_for_now(subject, status.gate, side)
        request = verdict_request(look.name, status, outcome)
        answer = self._asked(lambda: self._control(side).stub.ReportVerdict(request, timeout=CALL_SECONDS))
        if answer and not answer.repeated_verdict and outcome != "error":
            instance, revision = subject.instance, answer.instance.record_revision
            passed = outcome == "passed"
            subject.said(Decided(revision, instance, status.gate, passed, look.record_revision, again))
            if again and answer.instance.state == control_pb2.INSTANCE_STATE_WITHDRAWN:
                subject.said(Withdrew(revision, instance, by_person=False))

    def _has_passed_for_now(self, subject: Subject, gate: str, side: bool) -> bool:
        """Whether it is a continuous gate that has passed: nothing else changes gates while nobody asks for it."""
        now = self._asked(lambda: self._control(side).instance(subject.instance))
        found = (status for status in (now.gates if now else ()) if status.gate == gate)
        wanted = control_pb2.GATE_PHASE_CONTINUOUS, control_pb2.GATE_STATE_PASSED
        return any((status.phase, status.state) == wanted for status in found)

    @rule(hold_id=st.sampled_from(HOLD_IDS), side=sides, component=st.sampled_from(["", "smoked", "whole"]))
    def hold_or_lift(self, hold_id: str, side: bool, component: str) -> None:
        control = self._control(side)
        if hold_id in self.held:
            self.held.remove(hold_id)
            control.lift_rollout(hold_id)
            return
        self.held.add(hold_id)
        control.stub.CreateRolloutHold(hold_request(hold_id, component), timeout=CALL_SECONDS)

    @precondition(lambda self: self.subjects)
    @rule(who=picks, by_person=st.booleans())
    def withdraw(self, who: int, by_person: bool) -> None:
        subject = self._subject(who)
        if done := self._planned(subject, withdrawal("machine", "said so", by_person=by_person)):
            subject.said(Withdrew(done.revision, subject.instance, by_person))

    @precondition(lambda self: self.subjects)
    @rule(who=picks)
    def reject(self, who: int) -> None:
        subject = self._subject(who)
        if done := self._planned(subject, edit(lambda record, now: rejected(record, "machine", "", now))):
            subject.said(Rejected(done.revision, subject.instance))

    @precondition(lambda self: self.subjects)
    @rule(who=picks)
    def retry(self, who: int) -> None:
        subject = self._subject(who)
        if done := self._planned(subject, edit(lambda record, now: retried(record, (), "machine", "", now))):
            subject.said(Retried(done.revision, subject.instance))

    @precondition(lambda self: self.subjects)
    @rule(who=picks)
    def override(self, who: int) -> None:
        subject = self._subject(who)
        if done := self._planned(subject, edit(lambda record, now: overridden(record, "machine", "", now))):
            subject.said(Overrode(done.revision, subject.instance))

    # ---- proxies ----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.subjects and not self.killed)
    @rule(side=sides)
    def kill(self, side: bool) -> None:
        self.killed = self.down = True
        if self.stage.kills < MAX_KILLS:
            self.stage.kills += 1
            self.stage.sides[side].kill()

    @precondition(lambda self: self.down)
    @rule()
    def start_again(self) -> None:
        self.down = False
        for side in self.stage.sides:
            if not side.running:
                side.start()

    @invariant()
    def the_public_sees_the_same_through_a_proxy(self) -> None:
        if not hasattr(self, "pairing"):
            return
        mine = self._client(True).range(b"\0", b"\0")
        straight = self.pairing.etcd.range(b"\x02", b"\0", revision=mine.header.revision)
        assert (list(mine.kvs), mine.count) == (list(straight.kvs), straight.count)

    def teardown(self) -> None:
        if not hasattr(self, "pairing"):
            return
        try:
            if sys.exc_info()[0] is not None:
                return  # A step failed already: what it said must not be hidden by what follows from it.
            self._all_rest()
            self._everybody_once_more()
            self._all_rest()
            for subject in self.subjects:
                if not subject.ended:
                    self.pairing.end(subject, self._client(True))
            self._check()
        finally:
            self.pairing.close()

    def _everybody_once_more(self) -> None:
        """Whatever came before, who has a card and passes is released once nothing stops it, and can be withdrawn."""
        for hold_id in sorted(self.held):
            self.hold_or_lift(hold_id, True, "")
        for who, subject in enumerate(self.subjects):
            if not subject.ended:
                for side in (False, True):
                    self.create(who, 0, side)
                    self.fail_one(who, side)
                    self.retry(who)
                    self.hold_or_lift(HOLD_IDS[0], side, "")
                    self.pass_all(who, side)
                    self.hold_or_lift(HOLD_IDS[0], not side, "")
                    self._all_rest()
                    self.read(who, 0, not side, "")
                    self.withdraw(who, by_person=side)
                    self.read(who, 0, side, "")

    def _all_rest(self) -> None:
        """Whoever is ready is released, whichever proxy died on the way."""
        for subject in self.subjects:
            wait_for(
                partial(self.pairing.nobody_forgot, subject), 30, f"{subject.instance} is released, if it is ready"
            )

    def _check(self) -> None:
        self.pairing.catch_up()
        for subject in self.subjects:
            self.stage.states.update(states(self.pairing.log, subject.instance))
        faults = [
            fault for subject in self.subjects for fault in verdict_on(subject.life, self.pairing.log, all_said=False)
        ]
        assert not faults, "\n".join(faults)
        left = [entry.key for entry in self.pairing.etcd.everything().kvs]
        named = [subject.instance.encode() for subject in self.subjects]
        assert not [key for key in left if any(name in key for name in named)]

    # ---- how it is done ---------------------------------------------------------------------------------------------

    def _both(self, subject: Subject, call: Call, side: bool) -> None:
        self.pairing.both(subject, call, self._client(side))

    def _planned(self, subject: Subject, planner: Planner) -> CarriedOut | None:
        """An operator's plan, carried out as the control API does it."""
        try:
            return asyncio.run(carried_out(self.stage.etcd.port, subject.instance, planner))
        except (WrongState, UnknownInstance):
            return None

    def _asked(self, asking: Callable[[], Any]) -> Any:
        """An answer of the control API; None where it says no."""
        try:
            return asking()
        except grpc.RpcError as error:
            if refusal(error)[0] in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION):
                return None
            raise

    def _subject(self, who: int) -> Subject:
        return self.subjects[who % len(self.subjects)]

    def _key(self, who: int, what: int) -> tuple[Subject, bytes]:
        subject = self._subject(who)
        records = [subject.round.instance_key] if subject.round.kind is Kind.WHOLE else []
        keys = [*[subject.round.card_key] * 4, *records * 2, *subject.round.lora_keys]
        return subject, keys[what % len(keys)]

    def _value(self, subject: Subject, key: bytes) -> bytes:
        return subject.round.value(key, str(next(numbers)), [])

    def _side(self, side: bool) -> Side:
        """The one asked for, or the one that lives."""
        return next(one for one in (self.stage.sides[side], self.stage.sides[not side]) if one.running)

    def _client(self, side: bool) -> EtcdClient:
        return self._side(side).client

    def _control(self, side: bool) -> Control:
        return self._side(side).control


@pytest.mark.timeout(300)
def test_whatever_happens_workers_see_etcd_and_the_public_sees_what_passed(stage: Stage) -> None:
    """Two proxies, kills, verdicts old and new, rollout holds, withdrawals, and a twin of every worker on etcd."""
    machine = type("Machine", (GatingMachine,), {"stage": stage})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=True,
            # A run on real processes is not repeated to be made smaller: the steps and the story are printed.
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert stage.kills == MAX_KILLS
    assert not {state: stage.states[state] for state, least in AT_LEAST.items() if stage.states[state] < least}

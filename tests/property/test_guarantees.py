"""The guarantees themselves: a good run breaks none, and for each there is a run that breaks it and no other."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest

from tests.guarantees import GUARANTEES, Flight, check, never_more_in_flight, none_forgotten, none_left_over
from tests.support.story import (
    Decided,
    Deleted,
    Event,
    LeaseEnded,
    Operation,
    Overrode,
    RolloutHeld,
    RolloutHoldLifted,
    Saw,
    Story,
    Withdrew,
    Wrote,
    moments,
)

A, B = b"card", b"card/lora"
OLD, NEW = b"1", b"2"
L = "7f"
GATES = frozenset({"smoke"})


def wrote(revision: int, key: bytes = A, value: bytes = OLD) -> Wrote:
    return Wrote(revision, L, key, value, gates=GATES, lora=key == B)


def passed(revision: int, looked_at: int) -> Decided:
    return Decided(revision, L, "smoke", True, looked_at)


def shown(revision: int, key: bytes = A, value: bytes | None = OLD) -> Event:
    return Event(revision, L, key, value)


GOOD: tuple[list[Operation], list[Event]] = (
    [
        wrote(2),
        wrote(3, B),
        RolloutHeld(4, "stop"),
        passed(5, 4),
        RolloutHoldLifted(6, "stop"),
        wrote(8, A, NEW),
        Withdrew(9, L),
        Saw(9, L, A, NEW),
        Deleted(10, L, B),
        Overrode(11, L),
        LeaseEnded(12, L),
    ],
    [
        *(shown(7), shown(7, B), shown(8, A, NEW)),
        *(shown(9, A, None), shown(9, B, None), shown(11, A, NEW), shown(12, A, None)),
    ],
)

BROKEN: dict[str, tuple[list[Operation], list[Event]]] = {
    "never early: b'card' became public while smoke open": ([wrote(2)], [shown(3)]),
    "never early: b'card' became public while rollout hold stop": (
        [wrote(2), RolloutHeld(3, "stop"), passed(4, 3)],
        [shown(4)],
    ),
    "only what was checked: a verdict": ([wrote(2), wrote(3, A, NEW), passed(4, 2)], [shown(4, A, NEW)]),
    "only what was checked: smoke had failed": (
        [wrote(2), Decided(3, L, "smoke", False, 2), passed(4, 2)],
        [shown(4)],
    ),
    "all at once": ([wrote(2), wrote(3, B), passed(4, 3)], [shown(4)]),
    "once only": ([wrote(2), passed(3, 2)], [shown(3), shown(4)]),
    "in order of registration": ([wrote(2), wrote(3, B), passed(4, 3)], [shown(4, B), shown(4)]),
    "no lost write: b'card' was published as b'1'": ([wrote(2), wrote(3, A, NEW), passed(4, 3)], [shown(4)]),
    "no lost write: b'card' was acknowledged as b'2', and the public": (
        [wrote(2), passed(3, 2), wrote(4, A, NEW)],
        [shown(3)],
    ),
    "no lost write: b'card' was taken": ([wrote(2), passed(3, 2)], [shown(3), shown(4, A, None)]),
    "no lost write: b'card' was acknowledged as b'1', its owner sees None": ([wrote(2), Saw(2, L, A, None)], []),
    "no lost write: b'card' was to be written over": (
        [wrote(2), Wrote(3, L, A, NEW, gates=GATES, over=None)],
        [],
    ),
    "no lost write: b'card' was to be written unless b'1'": (
        [wrote(2), Wrote(3, L, A, NEW, gates=GATES, unless=OLD)],
        [],
    ),
    "no resurrected delete: b'card' became public": ([wrote(2), Deleted(3, L, A)], [shown(4)]),
    "no resurrected delete: b'card' was deleted, and is": ([wrote(2), passed(3, 2), Deleted(4, L, A)], [shown(3)]),
    "no resurrected delete: b'card' was deleted, its": ([wrote(2), Deleted(3, L, A), Saw(3, L, A, OLD)], []),
    "nothing left after the lease: [b'card'] of 7f": ([wrote(2), passed(3, 2), LeaseEnded(4, L)], [shown(3)]),
    "nothing left after the lease: something": ([wrote(2), LeaseEnded(3, L)], [shown(4)]),
    "withdrawn whole: [b'card/lora'] stayed": (
        [wrote(2), wrote(3, B), passed(4, 3), Withdrew(5, L)],
        [shown(4), shown(4, B), shown(5, A, None)],
    ),
}


BEYOND_LIMITS: dict[str, tuple[Story, list[Operation], list[Event]]] = {
    "never too many: 7f are in flight": (Story(max_in_flight=0), [wrote(2), passed(3, 2)], [shown(3)]),
    "never too few: automation left 0 released": (
        Story(min_released=1),
        [wrote(2), passed(3, 2), Withdrew(4, L, by_person=False)],
        [shown(3), shown(4, A, None)],
    ),
}


def faults_of(
    operations: Iterable[Operation], events: Iterable[Event], story: Story | None = None
) -> list[tuple[str, str]]:
    return [
        (guarantee.__name__, fault)
        for moment in moments(operations, events, story)
        for guarantee in GUARANTEES
        for fault in guarantee(moment)
    ]


def test_a_good_run_breaks_nothing() -> None:
    story = check(*GOOD)
    assert story.of(L).ended
    assert none_forgotten(story) == none_left_over(story, []) == []


@pytest.mark.parametrize("words", BROKEN)
def test_a_bad_run_breaks_one_guarantee(words: str) -> None:
    operations, events = BROKEN[words]
    faults = faults_of(operations, events)
    assert [fault for _, fault in faults if fault.startswith(words)], faults
    assert len({name for name, _ in faults}) == 1, faults
    with pytest.raises(AssertionError, match=words.partition(":")[0]):
        check(operations, events)


@pytest.mark.parametrize("words", BEYOND_LIMITS)
def test_a_run_beyond_its_limits_breaks_one_guarantee(words: str) -> None:
    story, operations, events = BEYOND_LIMITS[words]
    [(_, fault)] = faults_of(operations, events, story)
    assert fault.startswith(words)
    assert faults_of(operations, events) == []


def test_a_person_may_leave_too_few() -> None:
    assert (
        faults_of([wrote(2), passed(3, 2), Withdrew(4, L)], [shown(3), shown(4, A, None)], Story(min_released=1)) == []
    )


def test_more_in_flight_than_may_be_are_found_at_the_release_that_is_too_much() -> None:
    begun = datetime(2030, 1, 1, tzinfo=UTC)
    settle = timedelta(seconds=1)

    def flight(name: str, revision: int, seconds: float, over: int | None = None) -> Flight:
        return Flight(name, revision, begun + timedelta(seconds=seconds), over)

    settled = [flight("a", 2, 0), flight("b", 3, 1), flight("c", 4, 2)]
    assert list(never_more_in_flight(settled, 1, settle)) == []
    assert list(never_more_in_flight([flight("a", 2, 0, over=3), flight("b", 4, 0.5)], 1, settle)) == []
    too_many = [flight("b", 4, 0.5), flight("a", 2, 0, over=4 + 1)]
    [fault] = never_more_in_flight(too_many, 1, settle)
    assert fault == "never too many: a, b are in flight, at most 1 may be (revision 4)"


def test_each_guarantee_can_be_broken() -> None:
    broken = {name for run in BROKEN.values() for name, _ in faults_of(*run)}
    broken |= {name for story, *run in BEYOND_LIMITS.values() for name, _ in faults_of(*run, story)}
    assert broken == {guarantee.__name__ for guarantee in GUARANTEES}


def test_whoever_is_ready_and_still_held_is_forgotten() -> None:
    assert none_forgotten(check([wrote(2), passed(3, 2)], [])) == ["none forgotten: 7f is ready, and not released"]
    assert none_forgotten(check([wrote(2), passed(3, 2), RolloutHeld(4, "stop", frozenset({"80"}))], [])) != []
    assert none_forgotten(check([wrote(2), passed(3, 2), RolloutHeld(4, "stop", frozenset({L}))], [])) == []
    assert none_forgotten(Story()) == []


def test_who_waits_for_a_gate_that_a_changed_instance_record_brought_is_not_forgotten() -> None:
    """The proxy that wrote it has a rule of its own. Whoever passes that gate no more is there."""

    def address(revision: int, value: bytes, *gates: str) -> Wrote:
        return Wrote(revision, L, b"instance", value, gates=frozenset(gates), card=False)

    at_first = [wrote(2), address(3, OLD, "smoke"), passed(4, 3)]
    assert none_forgotten(check(at_first, [])) != []
    story = check([*at_first, address(5, NEW, "smoke", "accuracy")], [])
    assert none_forgotten(story) == []
    assert story.of(L).open_gates == ["accuracy open"]


def test_a_key_of_ours_that_outlives_the_lease_is_left_over() -> None:
    story = check([wrote(2), LeaseEnded(3, L)], [])
    assert none_left_over(story, [(L, b"\x01greenroom/instances/7f"), ("80", A)]) == [
        "nothing left after the lease: b'\\x01greenroom/instances/7f' of 7f"
    ]

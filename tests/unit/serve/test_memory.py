"""What a proxy remembers of the instances that it wrote for: bounded, and never a wrong instance's."""

from dataclasses import replace

from greenroom.core.keyspace import InstanceId
from greenroom.serve.memory import MAX_INSTANCES, MAX_VALUE_BYTES, Memory
from tests.support.instances import INSTANCE, K, held_record, snapshot

HELD = snapshot(held_record(K), shadows=(K,))


def test_the_last_snapshot_is_kept_until_nobody_knows() -> None:
    memory = Memory(lambda: 1)
    assert memory.recall(INSTANCE) is None
    memory.keep(INSTANCE, HELD)
    later = replace(HELD, revision=200)
    memory.keep(INSTANCE, later)
    assert memory.recall(INSTANCE) is later
    memory.keep(INSTANCE, None)
    memory.keep(INSTANCE, None)
    assert (memory.recall(INSTANCE), len(memory)) == (None, 0)


def test_the_instance_that_was_not_written_for_the_longest_is_forgotten() -> None:
    memory = Memory(lambda: 1)
    names = [InstanceId(f"{number:x}") for number in range(1, MAX_INSTANCES + 2)]
    for name in names[:-1]:
        memory.keep(name, HELD)
    memory.keep(names[0], HELD)
    memory.keep(names[-1], HELD)
    assert len(memory) == MAX_INSTANCES
    assert memory.recall(names[1]) is None
    assert memory.recall(names[0]) is memory.recall(names[-1]) is HELD


def test_large_values_are_not_kept_nor_what_was_known_before_them() -> None:
    memory = Memory(lambda: 1)
    memory.keep(INSTANCE, HELD)
    memory.keep(INSTANCE, snapshot(held_record(K), shadows=(K,), values={K: b"x" * (MAX_VALUE_BYTES + 1)}))
    assert memory.recall(INSTANCE) is None


def test_what_is_remembered_ends_with_the_history_that_it_is_of() -> None:
    """etcd was away, and what comes back may be a backup."""
    histories: list[int | None] = [1, 1]
    memory = Memory(lambda: histories[-1])
    memory.keep(INSTANCE, HELD)
    assert memory.recall(INSTANCE) is HELD
    histories.append(2)
    assert memory.recall(INSTANCE) is None
    histories.append(1)
    assert memory.recall(INSTANCE) is None


def test_while_no_history_is_followed_nothing_is_remembered() -> None:
    """The answers that come meanwhile may be of either."""
    histories: list[int | None] = [None]
    memory = Memory(lambda: histories[-1])
    memory.keep(INSTANCE, HELD)
    assert (memory.recall(INSTANCE), len(memory)) == (None, 0)
    histories.append(1)
    assert memory.recall(INSTANCE) is None
    memory.keep(INSTANCE, HELD)
    histories.append(None)
    assert memory.recall(INSTANCE) is None

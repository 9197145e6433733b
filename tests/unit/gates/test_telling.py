"""What a stream tells, passed on to a plan."""

from greenroom.gates.plan import Plan
from greenroom.gates.telling import Telling
from tests.support.shown import shown
from tests.support.told import event, response, snapshot


def telling() -> Telling:
    return Telling(Plan(("smoke",), lambda _: True, 10))


def known(telling: Telling) -> list[str]:
    return sorted(instance.id for instance in telling.plan.instances)


def test_a_snapshot_is_known_when_all_of_it_was_told() -> None:
    told = telling()
    assert told.begin() == ""
    told.take(response(event("EXISTING", shown("1"))))
    assert not told.is_synced
    told.take(snapshot(shown("2"), token="t5"))
    assert told.is_synced
    assert known(told) == ["1", "2"]
    assert told.begin() == "t5"


def test_changes_come_after_it() -> None:
    told = telling()
    told.begin()
    told.take(snapshot(shown("1")))
    told.take(response(event("ADDED", shown("2")), event("REMOVED", shown("1"), "EXPIRED"), token="t2"))
    assert known(told) == ["2"]


def test_whoever_is_not_in_a_new_snapshot_is_gone() -> None:
    told = telling()
    told.begin()
    told.take(snapshot(shown("1"), shown("2")))
    told.take(response(event("ADDED", shown("3")), token="t2"))
    told.forget_token()
    assert told.begin() == ""
    told.take(snapshot(shown("2")))
    assert known(told) == ["2"]


def test_what_a_new_snapshot_tells_counts_be_it_older() -> None:
    """An etcd that was set back to a backup has records from before: who is held again must be checked again."""
    told, before, after = telling(), shown("1", state="RELEASED"), shown("1")
    before.record_revision, after.record_revision = 900, 40
    told.begin()
    told.take(snapshot(before))
    told.forget_token()
    told.begin()
    told.take(snapshot(after))
    assert list(told.plan.instances) == [after]


def test_a_resumed_stream_begins_with_what_changed() -> None:
    told = telling()
    told.begin()
    told.take(snapshot(shown("1")))
    told.begin()
    told.take(response(event("SYNCED"), token="t3"))
    assert known(told) == ["1"]


def test_a_bookmark_is_a_newer_token() -> None:
    told = telling()
    told.take(response(event("BOOKMARK"), token="t9"))
    assert told.begin() == "t9"

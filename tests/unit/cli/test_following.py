"""What is known of the instances, over streams that break, are resumed, and start anew."""

from greenroom.cli.following import Change, KnownInstances, News
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.shown import shown
from tests.support.told import event, response, snapshot


def released(name: str) -> pb.Instance:
    one = shown(name, state="RELEASED", gates={"smoke": "PASSED"})
    one.record_revision = 9
    return one


def said(changes: list[Change]) -> list[tuple[str, str]]:
    return [(change.news.value, change.instance.id) for change in changes]


def known(*instances: pb.Instance) -> KnownInstances:
    """One that has read a snapshot of these."""
    found = KnownInstances()
    assert found.begin() == ""
    found.take(snapshot(*instances))
    return found


def test_a_snapshot_is_told_when_it_is_whole() -> None:
    found = KnownInstances()
    found.begin()
    assert found.take(response(event("EXISTING", shown("a1")))) == []
    assert not found.complete
    assert said(found.take(snapshot(shown("b2")))) == [("seen", "a1"), ("seen", "b2")]
    assert (found.complete, found.begin(), list(found.now)) == (True, "t1", ["a1", "b2"])


def test_changes_are_told_as_they_come() -> None:
    found = known(shown("a1"), shown("b2"))
    news = response(event("CHANGED", released("b2")), event("ADDED", shown("c3")), token="t2")
    assert said(found.take(news)) == [("changed", "b2"), ("seen", "c3")]
    gone = response(event("REMOVED", shown("a1"), "EXPIRED"), token="t3")
    assert said(found.take(gone)) == [("gone", "a1")]
    assert (list(found.now), found.token) == (["b2", "c3"], "t3")
    assert found.take(response(event("BOOKMARK"), token="t4")) == []
    assert found.token == "t4"


def test_one_that_left_the_filter_has_changed_and_is_shown_as_it_is() -> None:
    """`--state held --watch` told every release as "gone … HELD"."""
    found = known(shown("a1"))
    [change] = found.take(response(event("REMOVED", released("a1"), "NOT_MATCHING")))
    assert (change.news, change.instance.state) == (News.CHANGED, pb.INSTANCE_STATE_RELEASED)
    assert found.now == {}


def test_an_address_that_became_known_is_a_change() -> None:
    """It comes from another key than the record, so the record's revision stays."""
    found = known(shown("a1", address=""))
    assert said(found.take(response(event("CHANGED", shown("a1"))))) == [("changed", "a1")]


def test_what_is_told_again_is_no_news() -> None:
    found = known(shown("a1"))
    assert found.begin() == "t1"
    again = [event("CHANGED", shown("a1")), event("ADDED", shown("a1")), event("REMOVED", shown("z9"), "EXPIRED")]
    assert found.take(response(*again, event("SYNCED"), token="t2")) == []


def test_a_stream_that_starts_anew_is_compared_with_what_was_known() -> None:
    found = known(shown("a1"), shown("b2"), shown("c3"))
    found.forget_token()
    assert found.begin() == ""
    assert found.take(response(event("EXISTING", released("b2")))) == []
    news = found.take(snapshot(shown("c3"), shown("d4"), token="t2"))
    assert said(news) == [("changed", "b2"), ("seen", "d4"), ("gone", "a1")]
    assert list(found.now) == ["b2", "c3", "d4"]


def test_a_snapshot_that_broke_off_leaves_what_was_known() -> None:
    found = known(shown("a1"))
    found.forget_token()
    found.begin()
    found.take(response(event("EXISTING", shown("b2"))))
    found.begin()
    assert said(found.take(snapshot(shown("a1")))) == []

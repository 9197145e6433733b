"""What a watch tells over streams that break, are resumed, and start anew."""

from greenroom.client.values import Change
from greenroom.client.watching import Told
from tests.support.shown import shown
from tests.support.told import event, response, snapshot


def said(changes: list[Change]) -> list[tuple[str, ...]]:
    return [(change.kind, change.instance.id, *filter(None, [change.removal_reason])) for change in changes]


def told(*names: str) -> Told:
    """One that has told of a snapshot of these."""
    found = Told()
    assert found.begin() == ""
    found.take(snapshot(*map(shown, names)))
    return found


def test_everything_is_told_as_it_comes() -> None:
    found = Told()
    found.begin()
    assert said(found.take(response(event("EXISTING", shown("a1"))))) == [("existing", "a1")]
    assert said(found.take(snapshot(shown("b2")))) == [("existing", "b2")]
    news = event("CHANGED", shown("b2")), event("ADDED", shown("c3")), event("REMOVED", shown("a1"), "EXPIRED")
    assert said(found.take(response(*news))) == [("changed", "b2"), ("added", "c3"), ("removed", "a1", "expired")]


def test_the_newest_token_is_resumed_from() -> None:
    found = told("a1", "b2")
    assert found.take(response(event("BOOKMARK"), token="t2")) == []
    assert found.begin() == "t2"
    news = response(event("CHANGED", shown("a1")), event("SYNCED"), token="t3")
    assert said(found.take(news)) == [("changed", "a1")], "what a resumed stream leaves out is as it was"


def test_a_new_start_tells_all_again_and_who_went_meanwhile() -> None:
    found = told("a1", "b2", "c3")
    found.forget_token()
    assert found.begin() == ""
    assert said(found.take(response(event("EXISTING", shown("b2"))))) == [("existing", "b2")]
    again = said(found.take(snapshot(shown("d4"))))
    assert again == [("existing", "d4"), ("removed", "a1", "unknown"), ("removed", "c3", "unknown")]
    found.forget_token()
    found.begin()
    assert said(found.take(snapshot())) == [("removed", "b2", "unknown"), ("removed", "d4", "unknown")]


def test_a_new_start_that_breaks_off_begins_again() -> None:
    found = told("a1")
    found.forget_token()
    found.begin()
    found.take(response(event("EXISTING", shown("b2"))))
    found.begin()
    assert said(found.take(snapshot(shown("a1")))) == [("existing", "a1"), ("removed", "b2", "unknown")]

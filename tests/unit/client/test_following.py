"""One stream after another: resumed, started anew, and asked for again while nobody answers."""

import pytest

from greenroom.cli.following import Change, KnownInstances
from greenroom.client import following
from greenroom.client.following import Trouble, followed, streamed
from greenroom.errors import ControlError
from tests.support.scripted import Scripted
from tests.support.shown import shown
from tests.support.told import event, response, snapshot

GONE = ControlError("nothing at revision 5", "HISTORY_GONE")
AWAY = ControlError("nobody answers", "UNREACHABLE")
WRONG = ControlError("state: is unknown", "INVALID_REQUEST")


def test_a_token_that_is_of_no_use_is_forgotten_at_once() -> None:
    client = Scripted([snapshot(shown("a1")), AWAY], [GONE], [snapshot(shown("b2"), token="t2"), AWAY])
    found = KnownInstances()
    with pytest.raises(ControlError):
        list(streamed(client, found))  # type: ignore[arg-type]
    with pytest.raises(ControlError):
        list(streamed(client, found))  # type: ignore[arg-type]
    assert (client.asked, list(found.now)) == (["", "t1", ""], ["b2"])


def said(changes: list[Change]) -> list[tuple[str, str]]:
    return [(change.news.value, change.instance.id) for change in changes]


def test_an_outage_is_told_once_and_its_end_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "sleep", lambda _: None)
    news = response(event("ADDED", shown("b2")), token="t2")
    client = Scripted([snapshot(shown("a1")), AWAY], [AWAY], [AWAY], [news, AWAY], [WRONG])
    heard: list[str] = []
    rounds = followed(client, KnownInstances(), Trouble(heard.append))  # type: ignore[arg-type]
    assert [said(next(rounds)), said(next(rounds))] == [[("seen", "a1")], [("seen", "b2")]]
    with pytest.raises(ControlError, match="unknown"):
        next(rounds)
    away = "greenroom: nobody answers; asking again until it answers"
    assert heard == [away, "greenroom: it answers again", away]
    assert client.asked == ["", "t1", "t1", "t1", "t2"]


def test_a_stream_that_told_something_is_asked_for_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("random.uniform", lambda _, most: most)
    monkeypatch.setattr(following, "sleep", slept.append)
    calls = Scripted([AWAY], [AWAY], [snapshot(shown("a1")), AWAY], [WRONG])
    with pytest.raises(ControlError, match="unknown"):
        list(followed(calls, KnownInstances(), Trouble(lambda _: None)))  # type: ignore[arg-type]
    assert slept == [0.1, 0.2, 0.1]

"""Lines for changes, and the pace of a table that is redrawn."""

import json
import threading
from collections.abc import Iterator, Sequence
from queue import SimpleQueue

import pytest

from greenroom.cli.following import Change, News
from greenroom.cli.options import OutputFormat
from greenroom.cli.watching import _put_all, at_least_each, line
from greenroom.errors import ControlError
from greenroom.pb.control.v1.control_pb2 import Instance
from tests.support.shown import shown

A, B = [shown("a1")], [shown("b2")]


def test_for_people_a_line_has_the_time_the_news_and_the_instance() -> None:
    words = line(Change(News.CHANGED, shown("b2", state="RELEASED", gates={"smoke": "PASSED"})), OutputFormat.TABLE)
    assert words.split()[1:4] == ["changed", "b2", "RELEASED"]


def test_for_programs_each_line_is_an_object() -> None:
    said = json.loads(line(Change(News.SEEN, shown("a1")), OutputFormat.JSON))
    assert (said["change"], said["instance"]["id"]) == ("seen", "a1")


def test_what_comes_at_once_is_drawn_once_and_silence_is_drawn_again() -> None:
    more = threading.Event()

    def lists() -> Iterator[Sequence[Instance]]:
        yield A
        yield B
        more.wait(60)

    drawn = at_least_each(0.01, lists(), settle_seconds=0.01)
    assert [next(drawn), next(drawn)] == [B, B]
    more.set()


def test_nothing_is_drawn_before_there_is_a_list_and_what_ends_the_lists_ends_it() -> None:
    def lists() -> Iterator[Sequence[Instance]]:
        raise ControlError("no control port")
        yield A

    with pytest.raises(ControlError, match="no control port"):
        next(at_least_each(0.01, lists(), settle_seconds=0))


def test_a_terminal_that_is_stopped_keeps_no_more_than_the_newest_list() -> None:
    """Ctrl-S, and a night of changes."""
    waiting: SimpleQueue[Sequence[Instance] | Exception] = SimpleQueue()
    _put_all(iter([A, B] * 1000), waiting)
    assert (waiting.qsize(), waiting.get()) == (1, B)

"""The timeline, and that a check which does not hold is never lost."""

import io

from rich.console import Console

from greenroom.demo.timeline import Timeline


def timeline() -> tuple[Timeline, io.StringIO]:
    output = io.StringIO()
    return Timeline(Console(file=output, soft_wrap=True)), output


def test_an_event_has_its_time_and_who_did_it() -> None:
    told, output = timeline()
    told.tell("worker 1", "registers tiny")
    assert output.getvalue().endswith(" s  worker 1    registers tiny\n")


def test_all_checks_hold() -> None:
    told, output = timeline()
    told.check("water is wet", True)
    told.eventually("it becomes true", iter([False, False, True]).__next__)
    assert told.conclude()
    assert "  yes  water is wet\n  yes  it becomes true\n\n2 of 2 as it should be" in output.getvalue()


def test_one_check_that_does_not_hold_spoils_it() -> None:
    told, output = timeline()
    told.check("water is dry", False)
    told.check("water is wet", True)
    told.eventually("never", lambda: False, timeout_seconds=0.01)
    assert not told.conclude()
    assert "NOT SEEN: water is dry" in output.getvalue()
    assert "1 of 3 as it should be" in output.getvalue()

"""How checks end: three ways, each with its code and one line; and never later than their time."""

import re
import signal
import threading

import pytest

from greenroom.core.record import MAX_REASON_BYTES
from greenroom.errors import CheckFailed, CheckInconclusive
from greenroom.gates.checks.ending import Check, Code, Ending, ended, line


def raising(error: Exception) -> Check:
    def check() -> str:
        raise error

    return check


@pytest.mark.parametrize(
    ("check", "ending"),
    [
        (lambda: "says hello", Ending(Code.PASSED, "smoke passed: says hello")),
        (raising(CheckFailed("says\nnothing")), Ending(Code.FAILED, "smoke failed: says nothing")),
        (raising(CheckInconclusive("too noisy")), Ending(Code.INCONCLUSIVE, "smoke inconclusive: too noisy")),
    ],
)
def test_a_check_ends_in_one_of_three_ways(check: Check, ending: Ending) -> None:
    assert ended("smoke", check, 20) == ending


def test_whatever_hangs_the_check_is_over_in_time() -> None:
    forever = threading.Event()
    try:
        ending = ended("smoke", lambda: str(forever.wait(5)), 0.05)
    finally:
        forever.set()
    assert ending == Ending(Code.FAILED, "smoke failed: it is not over after 0.05 s")


def test_a_regular_expression_that_never_ends_is_over_in_time() -> None:
    ending = ended("smoke", lambda: str(re.search("(a+)+$", "a" * 60 + "b")), 0.05)
    assert ending == Ending(Code.FAILED, "smoke failed: it is not over after 0.05 s")


def test_a_timer_that_runs_goes_on_afterwards() -> None:
    signal.setitimer(signal.ITIMER_REAL, 50)
    try:
        ended("smoke", lambda: "fine", 20)
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 20
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def test_what_is_wrong_with_the_check_itself_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        ended("smoke", lambda: str(1 / 0), 20)


@pytest.mark.parametrize("said", ["x" * 5000, "ä" * 5000, "a" + "€" * 5000])
def test_a_line_is_never_longer_than_a_reason(said: str) -> None:
    told = line("smoke", "failed", said)
    assert MAX_REASON_BYTES - 4 <= len(told.encode()) <= MAX_REASON_BYTES
    assert told.startswith("smoke failed: ")
    assert told.endswith("…")


def test_codes_are_what_gates_take_them_for() -> None:
    assert [int(code) for code in Code] == [0, 1, 75]

"""What a run found, within the length of a reason."""

import pytest

from greenroom.core.record import MAX_REASON_BYTES
from greenroom.gates.result import Outcome, with_last_words


@pytest.mark.parametrize("outcome", list(Outcome))
def test_only_a_pass_and_a_failure_end_an_attempt(outcome: Outcome) -> None:
    assert outcome.is_decided == (outcome in ("passed", "failed"))


def test_what_happened_stands_before_what_was_said_last() -> None:
    assert with_last_words("not over after 3 s", "") == "not over after 3 s"
    assert with_last_words("not over after 3 s", "asking") == "not over after 3 s; last: asking"


def test_of_a_long_story_the_end_is_kept_and_what_happened_too() -> None:
    told = with_last_words("not over after 3 s", "ä" * 5000 + "end")
    assert told.startswith("not over after 3 s; last: ä")
    assert told.endswith("äend")
    assert len(told.encode()) <= MAX_REASON_BYTES

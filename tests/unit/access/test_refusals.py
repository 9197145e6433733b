"""Causes of refusals are labels of a metric: their words are part of the interface."""

from greenroom.access.refusals import Refusal


def test_the_words_stay_what_dashboards_ask_for() -> None:
    assert {str(cause) for cause in Refusal} == {
        "missing",
        "malformed",
        "unknown",
        "expired",
        "role",
        "gate",
        "instance",
        "name",
        "method",
    }

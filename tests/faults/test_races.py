"""Some rounds of the race in every run: enough to find a fence that is missing, few enough to wait for.

The rule: the seed is fixed, and still no two runs are the same: who is faster is up to the machine. At length it is run
by `make races ROUNDS=10000`.
"""

import pytest

from tests.faults.races import DECISIONS, LIMITS, STORIES_TOLD, run

ROUNDS = 120
ROUNDS_OF_THREE = 80
LIMITED_ROUNDS = 60
SEED = 11

pytestmark = pytest.mark.timeout(400)


def test_two_proxies_and_operators_race_and_nothing_is_lost_or_shown_early() -> None:
    """Instances that are registered, judged, stopped, withdrawn and ended by everybody at once.

    The proxies' policies differ, and their clocks are 30 s apart.
    """
    figures = run(ROUNDS, SEED, 2)
    assert figures.sound, "\n\n".join([str(figures), *figures.violations[:STORIES_TOLD]])
    assert figures.rounds == ROUNDS
    assert min(figures.decisions[kind.__name__.lower()] for kind in DECISIONS) > 0, str(figures)
    assert min(figures.lost_fences, figures.releases, figures.withdrawals, figures.rejections) > 0, str(figures)
    assert min(figures.adoptions, figures.rollout_holds, figures.later_publications) > 0, str(figures)


def test_three_proxies_race_and_nothing_is_lost_or_shown_early() -> None:
    """The same, with a third one that is a minute behind the second."""
    figures = run(ROUNDS_OF_THREE, SEED, 3)
    assert figures.sound, "\n\n".join([str(figures), *figures.violations[:STORIES_TOLD]])
    assert figures.rounds == ROUNDS_OF_THREE
    assert min(figures.lost_fences, figures.releases, figures.rejections) > 0, str(figures)


def test_a_race_within_a_budget_never_has_more_in_flight() -> None:
    """The same, with two releases at once at most: whoever waits for his turn is let in, and nobody out of it."""
    figures = run(LIMITED_ROUNDS, SEED, 2, LIMITS)
    assert figures.sound, "\n\n".join([str(figures), *figures.violations[:STORIES_TOLD]])
    assert min(figures.lost_fences, figures.releases, figures.withdrawals, len(figures.flights)) > 0, str(figures)

"""The story's facts that do not need it to be played; playing it is tested end to end."""

from greenroom.demo import scenario
from greenroom.demo.run import GATE_OPTIONS


def test_the_story_knows_the_gates_that_the_proxy_is_started_with() -> None:
    started_with = tuple(option.partition("=")[0] for option in GATE_OPTIONS[1::2])
    assert started_with == scenario.GATES


def test_crashed_workers_are_waited_for_longer_than_their_leases_live() -> None:
    assert scenario.EXPIRY_SECONDS > 2 * scenario.SHORT_TTL_SECONDS

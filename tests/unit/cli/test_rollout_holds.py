"""Rollout holds on the command line."""

import pytest

from greenroom.cli.client import ControlError
from greenroom.cli.rollout_holds import choose, parse_selector, render
from greenroom.errors import SettingsError
from greenroom.pb.control.v1.control_pb2 import Selector
from tests.support.shown import NOW, at, rollout_hold


def test_a_selector_is_read() -> None:
    assert parse_selector("model=tiny*, component=backend") == Selector(model="tiny*", component="backend")
    assert parse_selector("") == Selector()


@pytest.mark.parametrize("text", ["tiny", "colour=red", "model=", "=x"])
def test_a_wrong_selector_would_stop_the_wrong_instances(text: str) -> None:
    with pytest.raises(SettingsError, match=r"is no FIELD=GLOB, with FIELD one of namespace, component"):
        parse_selector(text)


def test_one_is_chosen_by_any_part_of_its_id() -> None:
    holds = [rollout_hold("hold-1"), rollout_hold("hold-10"), rollout_hold("night")]
    assert choose(holds, "nig").name == "rolloutHolds/night"
    assert choose(holds, "hold-1").name == "rolloutHolds/hold-1"
    assert choose(holds, "rolloutHolds/hold-10").name == "rolloutHolds/hold-10"


def test_none_or_several_are_listed() -> None:
    holds = [rollout_hold("hold-1", "a"), rollout_hold("hold-2", "b")]
    with pytest.raises(ControlError, match=r"'hold' is ambiguous: hold-1 \(a\), hold-2 \(b\)"):
        choose(holds, "hold")
    with pytest.raises(ControlError, match=r"no rollout hold 'x'; there are: hold-1 \(a\), hold-2 \(b\)"):
        choose(holds, "x")
    with pytest.raises(ControlError, match="there are: none"):
        choose([], "x")


def test_the_list() -> None:
    ending = rollout_hold("night", "no releases at night", model="tiny*")
    ending.expire_time.CopyFrom(at(7200))
    assert render([rollout_hold("hold-1"), ending], NOW) == [
        "ID      ABOUT           REASON                WHO  AGE     ENDS",
        "hold-1  every instance  incident              ann  1m 30s  when lifted",
        "night   model=tiny*     no releases at night  ann  1m 30s  2h left",
    ]
    assert render([], NOW) == ["no rollout holds"]

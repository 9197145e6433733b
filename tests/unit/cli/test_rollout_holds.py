"""Rollout holds on the command line."""

import pytest

from greenroom.cli.rollout_holds import choose, parse_selector, render, stops
from greenroom.errors import ControlError, SettingsError
from greenroom.pb.control.v1.control_pb2 import Selector
from tests.support.shown import NOW, at, rollout_hold, shown


def test_a_selector_is_read() -> None:
    assert parse_selector("model=tiny*,component=backend") == Selector(model="tiny*", component="backend")
    assert parse_selector("") == Selector()


@pytest.mark.parametrize("text", ["tiny", "colour=red", "model=", "=x", ",", "model=a,"])
def test_a_wrong_selector_would_stop_the_wrong_instances(text: str) -> None:
    with pytest.raises(SettingsError, match=r"is no K=GLOB, with K one of namespace, component"):
        parse_selector(text)


def test_one_is_chosen_by_any_part_of_its_id() -> None:
    holds = [rollout_hold("hold-1"), rollout_hold("hold-10"), rollout_hold("night")]
    assert choose(holds, "nig").name == "rolloutHolds/night"
    assert choose(holds, "hold-1").name == "rolloutHolds/hold-1"
    assert choose(holds, "rolloutHolds/hold-10").name == "rolloutHolds/hold-10"


@pytest.mark.parametrize("text", ["", " ", "rolloutHolds/"])
def test_an_empty_text_lifts_nothing(text: str) -> None:
    """`lift "$HOLD"` with the variable not set would lift the only rollout hold that there is."""
    with pytest.raises(SettingsError, match=f"ID '{text}': is empty"):
        choose([rollout_hold("night")], text)


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


@pytest.mark.parametrize("text", ["model=a, component=b", " model=a", "model =a", "model=a b", " ", "model=a\t"])
def test_a_selector_with_a_space_would_match_nothing_and_stop_nothing(text: str) -> None:
    with pytest.raises(SettingsError, match=r"has a space in it; write K=GLOB,K=GLOB"):
        parse_selector(text)


def test_a_name_given_twice_would_silently_be_the_last() -> None:
    with pytest.raises(SettingsError, match=r"--selector 'model=a,model=b': model is given twice"):
        parse_selector("model=a,model=b")


def test_what_it_stops_now() -> None:
    stopped = shown("a1", rollout_hold="night")
    others = [
        shown("b2", rollout_hold="nigh"),
        shown("c3"),
        shown("d4", state="RELEASED", rollout_hold="night"),
        shown("e5", state="REJECTED", rollout_hold="night"),
    ]
    assert stops([stopped, *others], "night") == "it stops 1 instance that is known now: a1 (tiny, HELD)"
    two = stops([stopped, shown("f6", rollout_hold="night")], "night")
    assert two == "it stops 2 instances that are known now: a1 (tiny, HELD), f6 (tiny, HELD)"
    assert stops(others, "night") == "no instance that waits now matches it; later ones that match will wait"

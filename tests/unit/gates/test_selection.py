"""Which instances a runner is for."""

import socket

import pytest

from greenroom.core.selectors import Selector
from greenroom.gates.gate_config import WantedHold
from greenroom.gates.selection import Selection, host_of, is_this_host
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.shown import shown

ALL = Selector()


def selects(instance: pb.Instance, selector: Selector = ALL, **fields: object) -> bool:
    chosen: dict[str, object] = {"gates": ("smoke",), "is_near": None, "hold": None} | fields
    return Selection(selector=selector, **chosen).selects(instance)  # type: ignore[arg-type]


def test_by_default_it_is_for_all_that_have_one_of_its_gates() -> None:
    assert selects(shown(gates={"smoke": "PENDING", "latency": "PENDING"}))
    assert not selects(shown(gates={"latency": "PENDING"}))


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        (Selector(namespace="dyn*", component="backend", endpoint="generate", model="tin?"), True),
        (Selector(namespace="other"), False),
        (Selector(component="prefill"), False),
        (Selector(endpoint="embed"), False),
        (Selector(model="large"), False),
    ],
)
def test_a_selectors_globs_must_all_match(selector: Selector, chosen: bool) -> None:
    assert selects(shown(), selector) == chosen


def test_any_of_several_names_matches_and_what_is_not_known_does_not() -> None:
    instance = shown(models=("tiny", "polite"))
    instance.component = "backend, other"
    assert selects(instance, Selector(model="polite", component="other"))
    assert not selects(shown(models=()), Selector(model="tiny"))


def test_local_is_what_listens_on_this_host() -> None:
    assert selects(shown(address="127.0.0.1:9"), is_near=is_this_host)
    assert not selects(shown(address="192.0.2.7:9"), is_near=is_this_host)
    assert not selects(shown(address=""), is_near=is_this_host)


def test_a_host_is_this_one_where_it_can_be_listened_on() -> None:
    with socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
    assert is_this_host("127.0.0.1")
    assert is_this_host("::1")
    assert not is_this_host("192.0.2.1")
    assert not is_this_host("no such name")
    assert not is_this_host("a\0b")
    assert not is_this_host("")
    assert (host_of("[::1]:80"), host_of("10.0.0.7:80"), host_of("nowhere")) == ("::1", "10.0.0.7", "")


@pytest.mark.parametrize(
    ("hold", "asked", "runs"),
    [
        (pb.HOLD_CARD, None, True),
        (pb.HOLD_CARD, WantedHold.CARD, True),
        (pb.HOLD_CARD_AND_INSTANCE, WantedHold.CARD, True),
        (pb.HOLD_HEALTH, WantedHold.CARD, False),
        (pb.HOLD_CARD, WantedHold.HEALTH, False),
        (pb.HOLD_HEALTH, WantedHold.HEALTH, True),
    ],
)
def test_one_that_is_held_otherwise_than_asked_is_not_run(
    hold: "pb.Hold.ValueType", asked: WantedHold | None, runs: bool
) -> None:
    instance = shown()
    instance.hold = hold
    selection = Selection(("smoke",), ALL, None, asked)
    assert selection.selects(instance)
    assert selection.runs(instance) == runs
    assert bool(selection.why_not(instance)) != runs


def test_why_not_names_both() -> None:
    instance = shown()
    instance.hold = pb.HOLD_HEALTH
    why = Selection(("smoke",), ALL, None, WantedHold.CARD).why_not(instance)
    assert why == "this runner was told hold 'card', and the rule for instance 6177a228983c0b2b says 'health'"

"""To which gates and instances a caller is limited."""

import pytest
from pydantic import ValidationError

from greenroom.access.callers import Caller, InstanceSelector
from greenroom.access.roles import Role
from greenroom.core.cards import Attributes

TINY = Attributes("dynamo", "backend", "generate", "tiny-chat", "")
LARGE = Attributes("dynamo", "backend", "generate", "large", "")
UNREADABLE = Attributes("dynamo", "backend", "generate", None, "")


@pytest.mark.parametrize(
    ("gates", "gate", "may"),
    [
        (("smoke",), "smoke", True),
        (("smoke",), "smoke-2", False),
        (("latency-*", "smoke"), "latency-p99", True),
        (("*",), "anything", True),
        (("smoke",), "", False),
        (("SMOKE",), "smoke", False),
        ((), "smoke", False),
    ],
)
def test_gates_are_globs(gates: tuple[str, ...], gate: str, may: bool) -> None:
    assert Caller("ci", Role.REPORTER, gates).may_report_for(gate) is may


@pytest.mark.parametrize(
    ("selector", "cards", "may"),
    [
        (None, (), True),
        ({"model": "tiny*"}, (TINY,), True),
        ({"model": "tiny*"}, (LARGE,), False),
        ({"model": "tiny*"}, (LARGE, TINY), True),
        ({"model": "tiny*", "namespace": "other"}, (TINY,), False),
        ({"namespace": "dynamo", "component": "back*", "endpoint": "generate"}, (LARGE,), True),
        ({"model": "tiny*"}, (), False),
    ],
)
def test_an_instance_is_the_callers_business_by_one_of_its_cards(
    selector: dict[str, str] | None, cards: tuple[Attributes, ...], may: bool
) -> None:
    chosen = None if selector is None else InstanceSelector(**selector)
    assert Caller("ci", Role.REPORTER, ("*",), chosen).may_report_on(cards) is may


def test_what_could_not_be_read_is_nobodys_business_who_is_limited_by_it() -> None:
    """A worker that garbles its card would else choose who may pass its gates. For rules the safe side is the other."""
    limited = Caller("ci", Role.REPORTER, ("*",), InstanceSelector(model="*"))
    assert not limited.may_report_on((UNREADABLE,))
    assert Caller("ci", Role.REPORTER, ("*",), InstanceSelector(namespace="dynamo")).may_report_on((UNREADABLE,))


def test_a_selector_is_read_strictly_and_says_what_it_asks_for() -> None:
    with pytest.raises(ValidationError):
        InstanceSelector(suffix="lora")  # type: ignore[call-arg]
    assert str(InstanceSelector(model="tiny*", namespace="dynamo")) == "namespace=dynamo,model=tiny*"

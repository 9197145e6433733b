"""Selectors: globs that must all match, and what cannot be read matches."""

import pytest
from pydantic import ValidationError

from greenroom.core.cards import Attributes
from greenroom.core.selectors import Selector

CARD = Attributes("dynamo", "backend", "generate", "Qwen/Qwen3-0.6B", "")
LORA = Attributes("dynamo", "backend", "generate", "Qwen/Qwen3-0.6B", "lora-a")
UNREADABLE = Attributes("dynamo", "backend", "generate", None, "")


@pytest.mark.parametrize(
    ("globs", "matches"),
    [
        ({}, True),
        ({"namespace": "dynamo"}, True),
        ({"namespace": "Dynamo"}, False),
        ({"namespace": "dyn*"}, True),
        ({"namespace": "dyn"}, False),
        ({"component": "backen?"}, True),
        ({"component": "[a-c]*"}, True),
        ({"component": "[!b]*"}, False),
        ({"model": "Qwen/*"}, True),
        ({"model": "*"}, True),
        ({"model": ""}, False),
        ({"endpoint": "generate", "model": "Llama*"}, False),
        ({"suffix": ""}, True),
        ({"suffix": "?*"}, False),
    ],
)
def test_all_globs_must_match(globs: dict[str, str], matches: bool) -> None:
    assert Selector(**globs).matches(CARD) is matches


def test_what_cannot_be_read_matches() -> None:
    """A rule that fails open would let a worker through because its card was garbage."""
    assert Selector(model="Llama*").matches(UNREADABLE)
    assert not Selector(model="Llama*", component="router").matches(UNREADABLE)


def test_any_key_of_an_instance_is_enough() -> None:
    lora = Selector(suffix="lora-*")
    assert lora.matches_any([CARD, LORA])
    assert not lora.matches_any([CARD])
    assert not Selector().matches_any([])


@pytest.mark.parametrize("fields", [{"modle": "x"}, {"model": 5}, {"namespace": ["a"]}])
def test_other_fields_and_types_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Selector.model_validate(fields)


def test_it_says_what_it_selects() -> None:
    assert str(Selector(model="Qwen/*", namespace="dynamo")) == "namespace=dynamo,model=Qwen/*"
    assert str(Selector()) == "everything"

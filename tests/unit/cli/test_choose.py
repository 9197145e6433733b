"""Which instance an operator means."""

import pytest

from greenroom.cli.choose import MAX_LISTED, Wanted, choose
from greenroom.errors import ControlError, NoSuchInstanceError, SettingsError
from tests.support.shown import shown

FLEET = [
    shown("6177a228983c0b2b", models=("tiny",), address="10.0.0.1:1"),
    shown("6177a228983c0b4d", models=("tiny", "lora"), address="10.0.0.2:1"),
    shown("7b4d", models=("big",), address="10.0.0.3:1"),
]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"text": "0b2b"}, "6177a228983c0b2b"),
        ({"text": "0B2B"}, "6177a228983c0b2b"),
        ({"text": "0x6177a228983c0b2b"}, "6177a228983c0b2b"),
        ({"text": "instances/7b4d"}, "7b4d"),
        ({"text": "7b4d"}, "7b4d"),
        ({"text": None, "address": "10.0.0.2:1"}, "6177a228983c0b4d"),
        ({"text": None, "model": "lora"}, "6177a228983c0b4d"),
        ({"text": "6177", "model": "lora"}, "6177a228983c0b4d"),
    ],
)
def test_what_names_exactly_one(given: dict[str, str], found: str) -> None:
    assert choose(FLEET, Wanted(**given)).id == found


def test_a_whole_id_wins_over_an_id_that_contains_it() -> None:
    fleet = [shown("b4d"), shown("6177a228983c0b4d")]
    assert choose(fleet, Wanted("b4d")).id == "b4d"


def test_several_are_listed_to_choose_from() -> None:
    """Ids of one etcd begin alike: whoever types the beginning must see the ends."""
    with pytest.raises(ControlError) as raised:
        choose(FLEET, Wanted("6177"))
    assert str(raised.value) == (
        "id '6177' is ambiguous: 6177a228983c0b2b (tiny, HELD), 6177a228983c0b4d (tiny, lora, HELD)"
    )


def test_none_lists_what_there_is() -> None:
    with pytest.raises(NoSuchInstanceError, match=r"no instance has model 'nope'; there are: 6177.*7b4d \(big, HELD\)"):
        choose(FLEET, Wanted(model="nope"))
    with pytest.raises(NoSuchInstanceError, match=r"there are none"):
        choose([], Wanted("6177"))


def test_a_long_list_is_cut() -> None:
    fleet = [shown(f"a{number:02x}") for number in range(MAX_LISTED + 2)]
    with pytest.raises(ControlError, match=r"and 2 more$"):
        choose(fleet, Wanted("a"))


def test_nothing_given_is_a_wrong_call() -> None:
    with pytest.raises(SettingsError, match="ID is not given"):
        Wanted()


@pytest.mark.parametrize("text", ["", " ", "0x", "0X", "instances/", "instances/0x"])
def test_an_empty_text_names_nobody(text: str) -> None:
    """It is in every id, so with one instance there it would be that one, whatever the script meant."""
    with pytest.raises(SettingsError, match=f"ID '{text}': is empty"):
        Wanted(text)
    with pytest.raises(SettingsError, match="ID"):
        Wanted(text, model="tiny")


@pytest.mark.parametrize("value", ["", " "])
def test_an_empty_address_or_model_is_named_by_its_option(value: str) -> None:
    with pytest.raises(SettingsError, match=f"--address '{value}': is empty"):
        Wanted(address=value)
    with pytest.raises(SettingsError, match=f"--model '{value}': is empty"):
        Wanted("7b4d", model=value)


def test_those_that_fit_are_listed_whatever_their_states() -> None:
    """Nobody is chosen because the others are done: which one a script means is not ours to guess."""
    fleet = [shown("a1", state="REJECTED"), shown("b2", state="RELEASED"), shown("c3")]
    with pytest.raises(ControlError) as raised:
        choose(fleet, Wanted(model="tiny"))
    assert str(raised.value) == ("model 'tiny' is ambiguous: a1 (tiny, REJECTED), b2 (tiny, RELEASED), c3 (tiny, HELD)")

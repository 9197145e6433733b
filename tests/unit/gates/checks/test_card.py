"""A card beside those of the others: who is compared, what is told, and when nobody is there."""

import pytest

from greenroom.errors import CheckFailed, CheckInconclusive
from greenroom.gates.checks.card import check_card
from greenroom.pb.control.v1.control_pb2 import GatedKey, Instance

LINE = "kv_cache_block_size=64 model_type=Chat tokenizer=aaaaaaaaaaaa"
OTHER = "kv_cache_block_size=32 model_type=Chat tokenizer=bbbbbbbbbbbb"


def instance(
    name: str,
    line: str = LINE,
    *,
    public: bool = True,
    live: bool = True,
    model: str = "tiny",
    component: str = "backend",
) -> Instance:
    place = f"dynamo/{component}/generate/{name}"
    key = GatedKey(key=f"v1/mdc/{place}".encode(), live=live, public=public, model=model, configuration=line)
    record = GatedKey(key=f"v1/instances/{place}".encode(), live=True, public=True)
    return Instance(id=name, gated_keys=[record, key], models=[model])


MINE = instance("aa", public=False)


def checked(*others: Instance, mine: Instance = MINE, alone_is_fine: bool = False, **expected: str) -> str:
    return check_card(mine, [mine, *others], expected, alone_is_fine=alone_is_fine)


def test_equal_cards_pass() -> None:
    assert checked(instance("bb")) == "tiny: as bb has it"
    assert checked(instance("bb"), instance("cc")) == "tiny: as bb and 1 more have it"


def test_another_one_is_told_with_whose_and_what() -> None:
    with pytest.raises(CheckFailed) as failed:
        checked(instance("bb"), instance("cc", OTHER))
    assert str(failed.value) == (
        "tiny is not that of cc (released): kv_cache_block_size is 64 here and 32 there; "
        "tokenizer is aaaaaaaaaaaa here and bbbbbbbbbbbb there"
    )


@pytest.mark.parametrize(
    "other",
    [
        instance("bb", OTHER, public=False),
        instance("bb", OTHER, live=False),
        instance("bb", OTHER, model="other"),
        instance("bb", OTHER, component="prefill"),
        instance("bb", OTHER.replace("Chat", "Completions")),
        instance("bb", ""),
        instance("aa", OTHER),
    ],
)
def test_who_is_not_comparable_is_not_compared(other: Instance) -> None:
    with pytest.raises(CheckInconclusive, match="no released instance to compare tiny with"):
        checked(other)
    assert checked(other, alone_is_fine=True) == "tiny: nobody to compare with"


def test_an_instance_that_serves_elsewhere_too_is_compared_where_both_do() -> None:
    """Else whoever has an endpoint more would have nobody to be compared with, and pass alone."""
    mine = instance("aa", public=False)
    mine.endpoints.append("embed")
    mine.gated_keys.add(key=b"v1/mdc/dynamo/backend/embed/aa", live=True, model="words", configuration=LINE)
    with pytest.raises(CheckFailed, match="tiny is not that of bb"):
        checked(instance("bb", OTHER), mine=mine, alone_is_fine=True)


def test_one_card_without_anybody_is_told_though_another_has_somebody() -> None:
    mine = instance("aa", public=False)
    mine.gated_keys.append(GatedKey(key=b"v1/mdc/x/l", live=True, model="lora", configuration=LINE))
    with pytest.raises(CheckInconclusive, match="no released instance to compare lora with"):
        checked(instance("bb"), mine=mine)


def test_no_card_is_inconclusive() -> None:
    with pytest.raises(CheckInconclusive, match="aa has no card that could be compared"):
        checked(instance("bb"), mine=instance("aa", ""))


def test_what_is_expected_is_compared_without_anybody() -> None:
    said = checked(alone_is_fine=True, kv_cache_block_size="64", gen_config="none")
    assert said == "tiny: nobody to compare with, and as expected (kv_cache_block_size, gen_config)"
    with pytest.raises(CheckFailed, match="tiny: tokenizer is aaaaaaaaaaaa, expected cccccccccccc"):
        checked(alone_is_fine=True, tokenizer="cccccccccccc")

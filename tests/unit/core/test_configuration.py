"""What of a card is compared, from cards as Dynamo wrote them."""

import json
from typing import Any

import pytest

from greenroom.core.configuration import Difference, configuration, differences, expected, set_of, value_in
from tests.support.instances import DATA, LORA, I, K, edited, value_of

FILE = {"path": "/a", "checksum": "blake3:0123456789abcdef0123456789abcdef", "size": 1}


def changed(**card: Any) -> str:
    return configuration(edited(K, **card))


def test_the_recorded_cards_line() -> None:
    line = configuration((DATA / "card.json").read_bytes())
    assert line == (
        "context_length=2048 gen_config=d02dfe7d2539 kv_cache_block_size=64 model_info=406d5af77b8d "
        "model_type=8e5b825c420a prompt_formatter=f4b6d5215d08 source_path=/models/tiny tokenizer=06cf97943eb5 "
        "worker_type=aggregated"
    )


@pytest.mark.parametrize("value", [b"", b"not json", b"[]", b'{"card_json": 1}', value_of(I)])
def test_what_is_no_card_has_none(value: bytes) -> None:
    assert configuration(value) == ""


@pytest.mark.parametrize("card", [
    {"taints": ["gold"]},
    {"display_name": "other"},
    {"migration_limit": 3},
    {"model_info": {"hf_config_json": {**json.loads(value_of(K))["card_json"]["model_info"]["hf_config_json"],
                                       "path": "http://10.0.0.10/config.json"}}},
    {"media_decoder": {"any": "thing"}},
])  # fmt: skip
def test_what_frontends_do_not_mind_is_not_in_it(card: dict[str, Any]) -> None:
    assert changed(**card) == configuration(value_of(K))


@pytest.mark.parametrize(
    ("card", "difference"),
    [
        ({"kv_cache_block_size": 32}, Difference("kv_cache_block_size", "64", "32")),
        ({"chat_template_file": {"hf_chat_template": {"is_custom": True, "file": FILE}}},
         Difference("chat_template_file", "none", "0123456789ab")),
        ({"worker_type": "prefill"}, Difference("worker_type", "aggregated", "prefill")),
        ({"needs": [["prefill"]]}, Difference("needs", "none", "df8287668f3b")),
        ({"tokenizer": {"tik_token_model": FILE}}, Difference("tokenizer", "*", "0123456789ab")),
        ({"architectural_max_context_length": 4096, "runtime_config": {}},
         Difference("context_length", "*", "4096")),
        ({"runtime_config": {"context_length": 7}}, Difference("context_length", "*", "7")),
    ],
)  # fmt: skip
def test_a_difference_is_told_by_field_with_both_sides(card: dict[str, Any], difference: Difference) -> None:
    [found] = differences(configuration(value_of(K)), changed(**card))
    assert (found.field, found.there) == (difference.field, difference.there)
    assert difference.here in ("*", found.here)
    assert str(found) == f"{found.field} is {found.here} here and {found.there} there"


def test_equal_cards_differ_in_nothing_and_an_adapter_is_configured_as_its_worker() -> None:
    assert differences(configuration(value_of(K)), configuration(edited(K, taints=["a"]))) == ()
    assert differences(configuration(value_of(LORA)), configuration(value_of(K))) == ()


@pytest.mark.parametrize("odd", [{"a": {"b": {"c": {"checksum": "x"}}}}, {"checksum": 1}, "text", [FILE], {}])
def test_what_names_no_file_as_dynamo_does_is_not_compared(odd: Any) -> None:
    assert "gen_config" not in changed(gen_config=odd)


def test_workers_of_different_types_are_not_compared_and_one_without_a_type_is_of_the_usual_one() -> None:
    usual = set_of(configuration(value_of(K)))
    assert set_of(changed(worker_type=None)) == usual
    assert set_of(changed(kv_cache_block_size=32)) == usual
    assert usual not in (set_of(changed(worker_type="decode")), set_of(changed(model_type="Completions")))


def test_a_value_that_could_be_taken_for_more_fields_is_told_by_its_digest() -> None:
    line = changed(worker_type="a b=c")
    assert [part.split("=")[0] for part in line.split()] == sorted(part.split("=")[0] for part in line.split())
    assert "b=c" not in line


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("kv_cache_block_size", "64"),
        ("model_type", "Chat | Completions"),
        ("tokenizer", "blake3:f821e718850720c4e9d959521edaf603932d481d8d1ba30783eb79db08fd8b9e"),
        ("tokenizer", "f821e7188507"),
        ("chat_template_file", "none"),
    ],
)
def test_what_a_person_expects_is_compared_with_what_a_card_has(field: str, text: str) -> None:
    card = {"tokenizer": {"t": {"checksum": f"blake3:f821e7188507{'0' * 52}"}}}
    assert value_in(changed(**card), field) == expected(field, text)


def test_a_list_is_expected_as_json() -> None:
    assert value_in(changed(needs=[["prefill"]]), "needs") == expected("needs", '[ ["prefill"] ]')
    assert expected("needs", "[prefill") not in ("none", "[prefill")


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("weights", "x", "is none of the fields that are compared: model_info, tokenizer"),
        ("tokenizer", "blake3:f821", "has less than the 12 digits of a checksum that are compared"),
    ],
)
def test_what_no_card_can_have_is_refused(field: str, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        expected(field, text)

"""What values say, with real ones that Dynamo's workers were recorded writing."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from greenroom.core.cards import (
    MAX_MODEL_BYTES,
    Attributes,
    address,
    attributes,
    differ_only_in_taints,
    disagreement,
    parse,
    read,
)
from greenroom.core.templates import GatedKey, dynamo_gated_keys

RECORDED = Path(__file__).resolve().parents[2] / "data" / "recorded.jsonl"
GATED = dynamo_gated_keys(instances=True)
PYTHON_WORKER = "v1/mdc/dynamo/pyw/generate/6177a228983c0b4d"


def recorded_puts() -> Iterator[tuple[str, bytes]]:
    """Every key and value that Dynamo's workers put by a Txn, in order."""
    for line in RECORDED.read_text().splitlines():
        entry = json.loads(line)
        if entry["direction"] == "request" and entry["method"].endswith("/Txn"):
            for operation in entry["message"].get("success", ()):
                if put := operation.get("request_put"):
                    yield put["key"], put["value"].encode()


def gated(key: str) -> GatedKey:
    found = GATED.classify(key.encode())
    assert isinstance(found, GatedKey)
    return found


def values_of(key: str) -> list[bytes]:
    return [value for put, value in recorded_puts() if put == key]


CARD = values_of(PYTHON_WORKER)[0]


def changed(value: bytes, **fields: object) -> bytes:
    """The value with top-level fields set."""
    parsed = json.loads(value)
    parsed.update(fields)
    return json.dumps(parsed).encode()


def with_config(value: bytes, **fields: object) -> bytes:
    parsed = json.loads(value)
    parsed["card_json"]["runtime_config"].update(fields)
    return json.dumps(parsed).encode()


def test_every_recorded_gated_value_agrees_with_its_key() -> None:
    puts = [(key, value) for key, value in recorded_puts() if isinstance(GATED.classify(key.encode()), GatedKey)]
    assert len(puts) >= 14
    assert [(key, why) for key, value in puts if (why := disagreement(gated(key), value))] == []


def test_a_recorded_card_names_its_model() -> None:
    found = attributes(gated(PYTHON_WORKER), CARD)
    model = json.loads(CARD)["card_json"]["display_name"]
    assert found == Attributes("dynamo", "pyw", "generate", model, "")
    assert model


def test_a_recorded_lora_card_has_its_suffix() -> None:
    key = f"{PYTHON_WORKER}/lora-a"
    assert attributes(gated(key), values_of(key)[0]).suffix == "lora-a"


def test_an_instance_record_names_no_model() -> None:
    key = "v1/instances/dynamo/pyw/generate/6177a228983c0b4d"
    assert attributes(gated(key), values_of(key)[0]).model is None


def test_recorded_edits_of_taints_differ_only_in_taints() -> None:
    """The worker was told: taints gold and a100, then silver, then none. Its gates need not run again."""
    values = values_of(PYTHON_WORKER)
    taints = [json.loads(value)["card_json"]["runtime_config"].get("taints") for value in values]
    assert taints[:4] == [None, ["a100", "gold"], ["silver"], []]
    for before, after in pairwise(values[:4]):
        assert before != after
        assert differ_only_in_taints(before, after)
        assert differ_only_in_taints(after, before)


@pytest.mark.parametrize(
    "edited",
    [
        with_config(CARD, total_kv_blocks=1),
        with_config(CARD, taints=["a"], data_parallel_size=99),
        changed(CARD, instance_id=1),
        changed(CARD, extra=None),
        b"not json",
        b"",
        b"[]",
        changed(CARD, card_json="text"),
        changed(CARD, card_json={}),
    ],
)
def test_anything_else_is_more_than_taints(edited: bytes) -> None:
    assert not differ_only_in_taints(CARD, edited)
    assert not differ_only_in_taints(edited, CARD)


def test_equal_values_differ_in_nothing_whatever_they_are() -> None:
    assert differ_only_in_taints(b"not json", b"not json")
    assert differ_only_in_taints(CARD, CARD)


def test_the_order_of_fields_is_not_a_difference() -> None:
    reordered = json.dumps(dict(reversed(json.loads(CARD).items()))).encode()
    assert reordered != CARD
    assert differ_only_in_taints(CARD, reordered)


@pytest.mark.parametrize(("before", "after"), [(1, 1.0), (1, True), (0, False), (1.0, True)])
def test_values_that_python_holds_equal_are_a_difference(before: object, after: object) -> None:
    assert not differ_only_in_taints(with_config(CARD, probe=before), with_config(CARD, probe=after))


def compact(value: bytes, own: list[str], **fields: object) -> bytes:
    """As serialisers write it, with taints of its own."""
    parsed = json.loads(with_config(value, taints=own))
    parsed.update(fields)
    return json.dumps(parsed, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (compact(CARD, ["a"]), compact(CARD, ["b", "c"]), True),
        (compact(CARD, []), compact(CARD, ["b"]), True),
        (compact(CARD, ["é"]), compact(CARD, ["b"]), True),
        (compact(CARD, ["a"]), compact(CARD, ["b"], extra=1), False),
        (compact(CARD, ["a"], taints=["a"]), compact(CARD, ["a"], taints=["b"]), False),
        (compact(CARD, ["a"]).replace(b'["a"]', b'["\xff"]'), compact(CARD, ["b"]), False),
        (compact(CARD, ["a"]).replace(b'["a"]', b'["\n"]'), compact(CARD, ["b"]), False),
        (compact(CARD, ["a"]).replace(b'["a"]', b'["a]'), compact(CARD, ["b"]), False),
    ],
    ids=["others", "none before", "not ASCII", "more", "another place", "no text", "a line break", "no end"],
)
def test_taints_as_serialisers_write_them(before: bytes, after: bytes, expected: bool) -> None:
    """`tests/property/test_cards.py` has them in any spelling."""
    assert differ_only_in_taints(before, after) == expected


def test_a_value_is_read_once() -> None:
    content = read(CARD)
    assert read(content) is content
    assert content.fields == json.loads(CARD)
    key = gated(PYTHON_WORKER)
    assert attributes(key, content) == attributes(key, CARD)
    assert disagreement(key, content) is None
    assert differ_only_in_taints(CARD, content)
    before = json.dumps(content.parsed)
    assert differ_only_in_taints(with_config(CARD, taints=["a"]), content)
    assert json.dumps(content.parsed) == before
    assert [read(value).flaw is None for value in (b"[]", b"1", b"", b"{", b"\xff")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert [read(value).fields for value in (b"[]", b"1", b"")] == [None, None, None]


def test_taints_of_another_place_are_a_difference() -> None:
    assert not differ_only_in_taints(changed(CARD, taints=["a"]), changed(CARD, taints=["b"]))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"instance_id": 5}, "instance_id is 5"),
        ({"instance_id": "7023260439144041293"}, "instance_id is '7023260439144041293'"),
        ({"instance_id": None}, "instance_id is None"),
        ({"namespace": "other"}, "namespace is 'other'"),
        ({"component": ""}, "component is ''"),
        ({"endpoint": 7}, "endpoint is 7"),
        ({"namespace": None}, "namespace is None"),
        ({"model_suffix": "lora-a"}, "model_suffix is 'lora-a'"),
    ],
)
def test_a_value_that_contradicts_its_key_is_told_with_both_sides(fields: dict[str, Any], said: str) -> None:
    """Frontends route by the value: one that names another worker would be held, and released, under a wrong name."""
    why = disagreement(gated(PYTHON_WORKER), changed(CARD, **fields))
    assert why is not None
    assert said in why
    assert "the key's" in why


def test_an_instance_id_of_true_is_not_the_id_one() -> None:
    key = gated("v1/mdc/n/c/e/1")
    assert disagreement(key, b'{"instance_id": true}') is not None
    assert disagreement(key, b'{"instance_id": 1}') is None


def test_a_lora_card_must_have_its_own_suffix() -> None:
    """A null suffix makes it the worker's own card to whoever reads the value."""
    key = f"{PYTHON_WORKER}/lora-a"
    value = values_of(key)[0]
    assert disagreement(gated(key), value) is None
    for suffix in ("lora-b", "", None):
        assert disagreement(gated(key), changed(value, model_suffix=suffix)) is not None


@pytest.mark.parametrize("value", [b"[]", b' ["Model", "other", "c", "e", 7, {}]'])
def test_an_array_is_refused_for_dynamo_reads_it_as_a_card_of_whomever_it_names(value: bytes) -> None:
    """Its items are the fields in their order to Dynamo's parser, and carry no names to be compared by."""
    why = disagreement(gated(PYTHON_WORKER), value)
    assert why is not None
    assert "array" in why


def test_a_null_suffix_on_a_workers_own_card_agrees() -> None:
    assert disagreement(gated(PYTHON_WORKER), changed(CARD, model_suffix=None)) is None


@pytest.mark.parametrize("value", [b"", b"not json", b'"text"', b"null", b"\xff\xfe\xfd", b"{}"])
def test_a_value_that_says_nothing_agrees_and_has_no_model(value: bytes) -> None:
    assert disagreement(gated(PYTHON_WORKER), value) is None
    assert attributes(gated(PYTHON_WORKER), value) == Attributes("dynamo", "pyw", "generate", None, "")


@pytest.mark.parametrize(
    "card",
    [{"display_name": "m" * (MAX_MODEL_BYTES + 1)}, None, "text", [], {}, {"display_name": 5}, {"display_name": None}],
)
def test_a_card_without_a_readable_name_has_no_model(card: object) -> None:
    assert attributes(gated(PYTHON_WORKER), changed(CARD, card_json=card)).model is None


def test_parse_takes_objects_only() -> None:
    assert parse(b'{"a": 1}') == {"a": 1}
    assert parse(b"[]") is None
    assert parse(b"[" * 100_000) is None


def test_a_recorded_instance_record_says_where_its_worker_listens() -> None:
    value = values_of("v1/instances/dynamo/pyw/generate/6177a228983c0b4d")[0]
    assert address(value) == "127.0.0.1:35833"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"transport": {"tcp": "10.0.0.1:80/x"}}', "10.0.0.1:80"),
        (b'{"transport": {"http": "http://h:8/v1/rpc"}}', "h:8"),
        (b'{"transport": {"kind": 1, "tcp": "h:1"}}', "h:1"),
        (b'{"transport": {}}', None),
        (b'{"transport": "tcp"}', None),
        (b"{}", None),
        (b"not json", None),
    ],
)
def test_address(value: bytes, expected: str | None) -> None:
    assert address(value) == expected


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (changed(CARD, instance_id=5)[:-1] + b', "n": ' + b"9" * 5000 + b"}", "digits"),
        (changed(CARD, instance_id=5)[:-1] + b', "n": ' + b"[" * 3000 + b"]" * 3000 + b"}", "nested too deep"),
        (changed(CARD, instance_id=5)[:-1] + b', "n": "\xff"}', "utf-8"),
        (b" \t\r\n{", "Expecting"),
        (b"\xef\xbb\xbf" + CARD, "BOM"),
        (CARD.decode().encode("utf-16-le"), "Expecting"),
        (b"[1", "Expecting"),
    ],
    ids=[
        "a long number",
        "deep",
        "a byte that is no text",
        "cut off",
        "a byte order mark",
        "another encoding",
        "array",
    ],
)
def test_what_begins_like_an_object_and_cannot_be_read_here_is_refused(value: bytes, said: str) -> None:
    """Dynamo's own parser takes the first three, and would route by the worker that they name."""
    assert parse(value) is None
    why = disagreement(gated(PYTHON_WORKER), value)
    assert why is not None
    assert said in why
    assert "cannot be read" in why


@pytest.mark.parametrize("value", [b"", b"not json", b"5", b'"{}"', b"null", b"\xff", b"x{}", b"\0{"])
def test_what_cannot_be_an_object_says_nothing_and_is_held(value: bytes) -> None:
    assert disagreement(gated(PYTHON_WORKER), value) is None


@pytest.mark.parametrize(
    "value",
    [
        b'{"instance_id": 5, ' + CARD[1:],
        CARD[:-1] + b', "instance_id": 7023260439144041293}',
        CARD.replace(b'"card_json":', b'"card_json": {}, "card_json":'),
        CARD.replace(b'"display_name":', b'"display_name": "free", "display_name":'),
        CARD.replace(b'"runtime_config":', b'"runtime_config": {}, "runtime_config":'),
    ],
    ids=["instance_id", "instance_id, equal", "card_json", "display_name", "runtime_config"],
)
def test_a_field_that_comes_twice_is_refused_for_readers_take_one_or_the_other(value: bytes) -> None:
    assert json.loads(value)
    assert "twice" in (disagreement(gated(PYTHON_WORKER), value) or "")
    assert parse(value) is None

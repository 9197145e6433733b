"""What a frontend refuses beside what it serves already is what conflicts are told for, field by field.

The frontend is the oracle: beside a mocker it is shown copies of that one's card, each with one field changed, and says
in its log which of them are incompatible.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from greenroom.core.configuration import configuration, differences, set_of
from tests.e2e.support.dynamo import Dynamo, Frontend, Mocker
from tests.e2e.support.store import Store
from tests.support.waiting import wait_for

Change = Callable[[dict[str, Any]], None]
FILE = {"path": "/elsewhere/file", "checksum": f"blake3:{'ab' * 32}", "size": 10}
SECONDS = 30


def card_with(**fields: Any) -> Change:
    return lambda card: card.update(fields)


def config_with(**fields: Any) -> Change:
    return lambda card: card["runtime_config"].update(fields)


def file_with(field: str, **said: Any) -> Change:
    return lambda card: next(iter(card[field].values())).update(said)


REFUSED: dict[str, Change] = {
    "source_path": card_with(source_path="/elsewhere/tiny"),
    "kv_cache_block_size": card_with(kv_cache_block_size=32),
    "context_length": config_with(context_length=512),
    "worker_type": card_with(worker_type=None),
    "needs": card_with(needs=[["prefill"]]),
    "aliases": card_with(aliases=["another-name"]),
    "model_info": file_with("model_info", checksum=FILE["checksum"]),
    "tokenizer": file_with("tokenizer", checksum=FILE["checksum"]),
    "prompt_formatter": file_with("prompt_formatter", checksum=FILE["checksum"]),
    "gen_config": file_with("gen_config", checksum=FILE["checksum"]),
    "chat_template_file": card_with(chat_template_file={"hf_chat_template": {"is_custom": False, "file": FILE}}),
    "extra_files": card_with(extra_files=[FILE]),
    "prompt_context": card_with(prompt_context=["oai_chat"]),
}
TAKEN: dict[str, Change] = {
    "nothing": card_with(),
    "taints": config_with(taints=["gold"]),
    "cache size": config_with(total_kv_blocks=100),
    "parsers": config_with(tool_call_parser="hermes", reasoning_parser="qwen3"),
    "where a file lies": file_with("model_info", path="/elsewhere/config.json"),
    "migration": card_with(migration_limit=3),
    "the engine's length decides": card_with(architectural_max_context_length=1024),
}
ELSEWHERE: dict[str, Change] = {
    "another type of worker": card_with(worker_type="decode", kv_cache_block_size=32),
    "another type of model": card_with(model_type="Completions", kv_cache_block_size=32),
}


class Beside:
    """The mocker's card, and copies of it under leases of their own."""

    def __init__(self, store: Store, mocker: Mocker, frontend: Frontend) -> None:
        self.client, self.frontend = store.client, frontend
        self.key = mocker.card_key
        entry = self.client.get(self.key)
        assert entry is not None
        self.card = entry.value

    def shown(self, change: Change) -> tuple[str, bytes]:
        """A copy in etcd: its instance and its value."""
        lease = self.client.grant(60)
        instance, value = f"{lease:x}", json.loads(self.card)
        value["instance_id"] = lease
        change(value["card_json"])
        key = self.key.rpartition(b"/")[0] + b"/" + instance.encode()
        self.client.put(key, json.dumps(value).encode(), lease)
        return instance, json.dumps(value).encode()

    def is_refused(self, instance: str) -> bool:
        lines = (line for line in self.frontend.log().splitlines() if instance in line)
        return any("incompatible" in line for line in lines)

    def gone(self, instance: str) -> None:
        self.client.revoke(int(instance, 16))


@pytest.fixture(scope="module")
def beside(dynamo: Dynamo, store: Store) -> Iterator[Beside]:
    environment = dynamo.environment(store.url)
    with (
        Mocker(dynamo, store, environment, component="backend", model="tiny") as mocker,
        Frontend(dynamo, environment) as frontend,
    ):
        yield Beside(store, mocker, frontend)


@pytest.mark.parametrize("field", REFUSED)
def test_a_frontend_refuses_what_is_told_as_a_conflict(beside: Beside, field: str) -> None:
    instance, value = beside.shown(REFUSED[field])
    wait_for(lambda: beside.is_refused(instance), SECONDS, f"the frontend refuses another {field}")
    beside.gone(instance)
    assert [one.field for one in differences(configuration(beside.card), configuration(value))] == [field]
    assert set_of(configuration(beside.card)) == set_of(configuration(value))


def test_a_frontend_takes_what_is_told_as_none(beside: Beside) -> None:
    """It has seen all of them by the time at which it refuses one that came later."""
    shown = [beside.shown(change) for change in (*TAKEN.values(), *ELSEWHERE.values())]
    last, _ = beside.shown(REFUSED["kv_cache_block_size"])
    wait_for(lambda: beside.is_refused(last), SECONDS, "the frontend refuses the last one")
    assert [instance for instance, _ in shown if beside.is_refused(instance)] == []
    lines = dict(zip((*TAKEN, *ELSEWHERE), (configuration(value) for _, value in shown), strict=True))
    assert {name for name in TAKEN if lines[name] != configuration(beside.card)} == set()
    assert {name for name in ELSEWHERE if set_of(lines[name]) == set_of(configuration(beside.card))} == set()
    for instance, _ in shown:
        beside.gone(instance)

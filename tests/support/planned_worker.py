"""A worker of a plan: its lease is chosen with the plan, so that keys and values are known before anything runs.

The rule: values are those of data/, byte for byte but for who it is.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data"
CARDS = "v1/mdc/"


@dataclass(slots=True)
class PlannedWorker:
    """A worker of the plan, and which of its cards are there at this point of it."""

    lease: int
    taints: int = 0
    edits: int = 0
    loras: set[str] = field(default_factory=set)
    released: bool = False

    @property
    def path(self) -> str:
        return f"dynamo/backend/generate/{self.lease:x}"

    @property
    def card_key(self) -> str:
        return CARDS + self.path

    def lora_key(self, name: str) -> str:
        return f"{self.card_key}/{name}"

    def card(self) -> str:
        value = _value("card.json", self.lease)
        config = value["card_json"]["runtime_config"]
        config["max_num_seqs"] = 256 + self.edits
        if self.taints:
            config["taints"] = [f"t{self.taints}"]
        return _compact(value)

    def lora_card(self, name: str) -> str:
        value = _value("lora_card.json", self.lease)
        value["model_suffix"] = value["card_json"]["display_name"] = value["card_json"]["lora"]["name"] = name
        return _compact(value)

    def instance_value(self) -> str:
        return _compact(_value("instance.json", self.lease))


def _value(name: str, lease: int) -> Any:
    value = json.loads((DATA / name).read_bytes())
    value["instance_id"] = lease
    return value


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))

"""A worker as Dynamo's are, without Dynamo: one lease, keys named by it, the Txns that Dynamo sends.

The rule: values are those of data/, byte for byte but for who it is. It decides nothing; what etcd answers comes back.
"""

import json
from pathlib import Path
from typing import Any

from greenroom.pb.etcd import kv_pb2, rpc_pb2
from tests.support.client import EtcdClient, get, mod_revision_is, put

DATA = Path(__file__).parents[1] / "data"
CARDS = b"v1/mdc/"
INSTANCES = b"v1/instances/"


class Worker:
    """Lives from the granting of its lease, through whichever endpoint `client` speaks to."""

    def __init__(
        self, client: EtcdClient, *, component: str = "backend", model: str = "tiny", ttl_seconds: int = 60
    ) -> None:
        self.client = client
        self.component = component
        self.model = model
        self.lease = client.grant(ttl_seconds)

    def __repr__(self) -> str:
        return f"Worker({self.instance}, {self.component}, {self.model})"

    @property
    def instance(self) -> str:
        """The lease id in hex, as in the keys."""
        return f"{self.lease:x}"

    @property
    def card_key(self) -> bytes:
        return CARDS + self._path

    @property
    def instance_key(self) -> bytes:
        return INSTANCES + self._path

    def lora_key(self, name: str = "polite") -> bytes:
        return self.card_key + b"/" + name.encode()

    def card(self, *, taints: list[str] | None = None, **config: Any) -> bytes:
        """The card's value; `config` changes its runtime_config, which gates check."""
        value = self._value("card.json")
        value["card_json"]["display_name"] = self.model
        value["card_json"]["runtime_config"].update(config, **({} if taints is None else {"taints": taints}))
        return _compact(value)

    def lora_card(self, name: str = "polite") -> bytes:
        value = self._value("lora_card.json")
        value["model_suffix"] = value["card_json"]["display_name"] = name
        value["card_json"]["lora"]["name"] = name
        return _compact(value)

    def instance_value(self) -> bytes:
        return _compact(self._value("instance.json"))

    def register(self) -> rpc_pb2.TxnResponse:
        return self.client.create(self.card_key, self.card(), self.lease)

    def register_lora(self, name: str = "polite") -> rpc_pb2.TxnResponse:
        return self.client.create(self.lora_key(name), self.lora_card(name), self.lease)

    def register_instance(self) -> rpc_pb2.TxnResponse:
        return self.client.create(self.instance_key, self.instance_value(), self.lease)

    def read(self, key: bytes = b"") -> kv_pb2.KeyValue:
        """Its card, or another key of its own, as it is told; AssertionError where it is told of none."""
        found = self.client.get(key or self.card_key)
        assert found is not None, f"{self} is told that it has no {key or self.card_key!r}"
        return found

    def swap(self, value: bytes, mod_revision: int) -> rpc_pb2.TxnResponse:
        """One round of a taint edit: the whole card again, if nobody wrote it since."""
        compare = [mod_revision_is(self.card_key, mod_revision)]
        return self.client.txn(compare, [put(self.card_key, value, self.lease)], [get(self.card_key)])

    def unregister(self) -> int:
        """How many keys etcd says it deleted."""
        return self.client.delete(self.card_key).deleted

    @property
    def _path(self) -> bytes:
        return f"dynamo/{self.component}/generate/{self.instance}".encode()

    def _value(self, name: str) -> Any:
        value = json.loads((DATA / name).read_bytes())
        value.update(component=self.component, instance_id=self.lease)
        return value


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()

"""Simulated workers. What they send to etcd is what workers of NVIDIA Dynamo 1.6 send, call by call.

In order: a lease and its keepalives; a read of all cards; each card by a Txn that creates it or reads what is there;
a read of all cards again; the instance record by such a Txn. To stop: the instance record's deletion, then the lease's.
"""

import contextlib
import json
import threading
from collections.abc import Iterator
from typing import Any

import grpc

from greenroom.core.keyspace import InstanceId, instance_id
from greenroom.pb.etcd import kv_pb2, rpc_pb2, rpc_pb2_grpc

CARDS = (b"v1/mdc/", b"v1/mdc0")
DEFAULT_TTL_SECONDS = 30
CALL_SECONDS = 10.0
NAMESPACE, COMPONENT, ENDPOINT = "dynamo", "backend", "generate"


class SimulatedWorker:
    """One worker with a connection of its own to `store` (`host:port`, the proxy's). `serves_at` is what it says."""

    def __init__(
        self, name: str, store: str, model: str, serves_at: str, ttl_seconds: int = DEFAULT_TTL_SECONDS
    ) -> None:
        self.name, self.model, self.serves_at = name, model, serves_at
        self._channel = grpc.insecure_channel(
            store, options=(("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1))
        )
        self._kv = rpc_pb2_grpc.KVStub(self._channel)
        self._leases = rpc_pb2_grpc.LeaseStub(self._channel)
        self._stopped = threading.Event()
        self._ttl_seconds = ttl_seconds
        self.lease = self._grant()
        self._keepalive = threading.Thread(target=self._keep_alive, name=f"keepalive of {name}", daemon=True)
        self._keepalive.start()

    @property
    def instance(self) -> InstanceId:
        """Its name in the control API."""
        return instance_id(self.lease)

    @property
    def card_key(self) -> bytes:
        """Where its own card belongs."""
        return f"v1/mdc/{NAMESPACE}/{COMPONENT}/{ENDPOINT}/{self.instance}".encode()

    @property
    def record_key(self) -> bytes:
        """Where its instance record belongs."""
        return f"v1/instances/{NAMESPACE}/{COMPONENT}/{ENDPOINT}/{self.instance}".encode()

    def adapter_key(self, adapter: str) -> bytes:
        """Where the card of a LoRA adapter belongs."""
        return self.card_key + b"/" + adapter.encode()

    def register(self, *adapters: str) -> bool:
        """Its card, those of its LoRA adapters, and its instance record; whether each was created."""
        created = [self._register_card(self.card_key, card(self.lease, self.model))]
        created += [self._register_card(self.adapter_key(name), card(self.lease, name, name)) for name in adapters]
        created.append(self._create(self.record_key, instance_record(self.lease, self.serves_at)))
        return all(created)

    def reads_its_card(self) -> kv_pb2.KeyValue | None:
        """Its own card by its exact key, as it does before it edits taints."""
        answer = self._kv.Range(rpc_pb2.RangeRequest(key=self.card_key), timeout=CALL_SECONDS)
        return next(iter(answer.kvs), None)

    def stop(self) -> None:
        """In good order; nothing for one that crashed."""
        if self._stopped.is_set():
            return
        with contextlib.suppress(grpc.RpcError):
            self._kv.DeleteRange(rpc_pb2.DeleteRangeRequest(key=self.record_key), timeout=CALL_SECONDS)
            self._leases.LeaseRevoke(rpc_pb2.LeaseRevokeRequest(ID=self.lease), timeout=CALL_SECONDS)
        self.crash()

    def crash(self) -> None:
        """As if killed: no word to anyone, only the keepalives end."""
        self._stopped.set()
        self._channel.close()
        self._keepalive.join(CALL_SECONDS)

    def _register_card(self, key: bytes, value: dict[str, Any]) -> bool:
        self._read_all_cards()
        created = self._create(key, value)
        self._read_all_cards()
        return created

    def _read_all_cards(self) -> None:
        self._kv.Range(rpc_pb2.RangeRequest(key=CARDS[0], range_end=CARDS[1]), timeout=CALL_SECONDS)

    def _create(self, key: bytes, value: dict[str, Any]) -> bool:
        return self._kv.Txn(create_txn(key, _compact(value), self.lease), timeout=CALL_SECONDS).succeeded

    def _grant(self) -> int:
        grant = rpc_pb2.LeaseGrantRequest(TTL=self._ttl_seconds)
        return self._leases.LeaseGrant(grant, timeout=CALL_SECONDS, wait_for_ready=True).ID

    def _keep_alive(self) -> None:
        with contextlib.suppress(grpc.RpcError, ValueError):
            for _ in self._leases.LeaseKeepAlive(self._beats()):
                if self._stopped.is_set():
                    return

    def _beats(self) -> Iterator[rpc_pb2.LeaseKeepAliveRequest]:
        """One at once, then one each half of the time to live."""
        while not self._stopped.is_set():
            yield rpc_pb2.LeaseKeepAliveRequest(ID=self.lease)
            self._stopped.wait(self._ttl_seconds / 2)


def create_txn(key: bytes, value: bytes, lease: int) -> rpc_pb2.TxnRequest:
    """Creates a key, or reads the one that is there."""
    absent = rpc_pb2.Compare(key=key, target=rpc_pb2.Compare.VERSION, version=0)
    put = rpc_pb2.RequestOp(request_put=rpc_pb2.PutRequest(key=key, value=value, lease=lease))
    read = rpc_pb2.RequestOp(request_range=rpc_pb2.RangeRequest(key=key))
    return rpc_pb2.TxnRequest(compare=[absent], success=[put], failure=[read])


def card(lease: int, model: str, adapter: str = "") -> dict[str, Any]:
    """A model card; with `adapter` that of a LoRA adapter."""
    own: dict[str, Any] = {"lora": {"name": adapter}} if adapter else {}
    value = {
        "type": "Model",
        "namespace": NAMESPACE,
        "component": COMPONENT,
        "endpoint": ENDPOINT,
        "instance_id": lease,
        "card_json": {
            "display_name": model,
            "slug": model,
            "source_path": f"/models/{model}",
            "model_info": {"hf_config_json": _file(model, "config.json", 412)},
            "tokenizer": {"hf_tokenizer_json": _file(model, "tokenizer.json", 44691)},
            "prompt_formatter": {"hf_tokenizer_config_json": _file(model, "tokenizer_config.json", 372)},
            "gen_config": {"hf_generation_config_json": _file(model, "generation_config.json", 67)},
            "architectural_max_context_length": 2048,
            "context_length": 2048,
            "kv_cache_block_size": 64,
            "migration_limit": 0,
            "model_type": "Chat | Completions",
            "model_input": "Tokens",
            "worker_type": "aggregated",
            "needs": [],
            **own,
            "runtime_config": _runtime_config(),
            "media_decoder": None,
            "media_fetcher": None,
        },
    }
    return {**value, "model_suffix": adapter} if adapter else value


def instance_record(lease: int, serves_at: str) -> dict[str, Any]:
    """An instance record: where the worker serves."""
    path = f"{serves_at}/{lease:x}/{NAMESPACE}/{COMPONENT}/{ENDPOINT}"
    return {
        "type": "Endpoint",
        "component": COMPONENT,
        "endpoint": ENDPOINT,
        "namespace": NAMESPACE,
        "instance_id": lease,
        "transport": {"tcp": path},
        "device_type": "cuda",
        "request_plane_codec": "msgpack",
    }


def _file(model: str, name: str, size: int) -> dict[str, Any]:
    return {"path": f"/models/{model}/{name}", "checksum": f"blake3:{size:064x}", "size": size}


def _runtime_config() -> dict[str, Any]:
    return {
        "total_kv_blocks": 512,
        "max_num_seqs": None,
        "max_num_batched_tokens": None,
        "tool_call_parser": None,
        "reasoning_parser": None,
        "tool_call_arguments_format": "json_string",
        "structural_tag_mode": "off",
        "structural_tag_scope": "auto",
        "structural_tag_schema": "auto",
        "exclude_tools_when_tool_choice_none": True,
        "data_parallel_start_rank": 0,
        "data_parallel_size": 1,
        "enable_local_indexer": True,
        "enable_eagle": False,
    }


def _compact(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()

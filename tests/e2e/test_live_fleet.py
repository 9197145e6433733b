"""A fleet that already serves is put behind the proxy: it must go on serving, and new workers are held from then on.

The proxy takes over the address that the workers know; etcd moves to another port, which frontends used from the start.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.support.dynamo import Dynamo, Frontend, PythonWorker
from tests.e2e.support.store import RESERVED, Store
from tests.support.greenroom import Greenroom
from tests.support.ports import free_port

MODEL = "veteran"
LORA = "accent"
RECRUIT = "recruit"
# Half of it is the least that the worker has to find the proxy at its old address.
LEASE_TTL_SECONDS = 20


@dataclass(frozen=True, slots=True)
class LiveFleet:
    store: Store
    greenroom: Greenroom
    worker: PythonWorker
    frontend: Frontend
    workers_environment: dict[str, str]

    def record(self) -> dict[str, Any]:
        """The worker's record as it lies in etcd."""
        entry = self.store.entry(RESERVED + b"instances/" + self.worker.instance.encode())
        return dict(json.loads(entry.value))


@pytest.fixture(scope="module")
def live(dynamo: Dynamo, store: Store) -> Iterator[LiveFleet]:
    """A worker registers on etcd itself and serves; then the proxy is put in between."""
    workers_port = free_port()
    store.listen_on(workers_port)
    environment = dynamo.environment(f"http://127.0.0.1:{workers_port}", lease_ttl_seconds=LEASE_TTL_SECONDS)
    with (
        Frontend(dynamo, dynamo.environment(store.url)) as frontend,
        PythonWorker(dynamo, store, environment, component="old", model=MODEL) as worker,
    ):
        worker.must("register")
        worker.must(f"register_lora {LORA}")
        frontend.wait_listed(LORA)
        frontend.wait_chat(MODEL)
        store.listen_on()
        with Greenroom(store.url, dynamo.folder, port=workers_port) as greenroom:
            store.wait_renewed(worker.lease_id)
            yield LiveFleet(store, greenroom, worker, frontend, environment)


def test_a_live_worker_goes_on_serving(live: LiveFleet) -> None:
    """The proxy is brought in during the day: users of the running model notice nothing."""
    assert {MODEL, LORA} <= live.frontend.models()
    live.frontend.wait_chat(MODEL)


def test_a_live_worker_edits_its_taints(live: LiveFleet) -> None:
    """Its card was public before the proxy came: the edit goes to the public card, and the record says why it may."""
    live.worker.must("taints gold")
    entry = live.store.entry(live.worker.card_key)
    assert json.loads(entry.value)["card_json"]["runtime_config"]["taints"] == ["gold"]
    record = live.record()
    assert (record["state"], record["reason"]) == ("RELEASED", "AlreadyPublic")


def test_a_live_worker_unloads_its_adapter(live: LiveFleet) -> None:
    """Only the adapter leaves; the model stays."""
    live.worker.must(f"unregister {LORA}")
    assert live.store.keys(live.worker.card_key) == [live.worker.card_key]
    live.frontend.wait_unlisted(LORA)
    assert live.frontend.chat(MODEL) == 200


def test_a_new_worker_of_a_live_fleet_is_held(live: LiveFleet, dynamo: Dynamo) -> None:
    """From the day the proxy is there, whoever joins waits for its gates, beside workers that never had any."""
    with PythonWorker(dynamo, live.store, live.workers_environment, component="new", model=RECRUIT) as recruit:
        recruit.must("register")
        assert recruit.instance in live.greenroom.listed("held")
        assert live.store.keys(recruit.card_key) == []
        live.greenroom.pass_gates(recruit.instance)
        live.frontend.wait_chat(RECRUIT)


def test_a_live_worker_unregisters(live: LiveFleet) -> None:
    """Its last card goes, and the model with it."""
    live.worker.must("unregister")
    assert live.store.keys(live.worker.card_key) == []
    live.frontend.wait_unlisted(MODEL)

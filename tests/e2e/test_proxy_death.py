"""The proxy dies while workers wait behind it: they must not notice more than a reconnection, and stay held."""

import json
from collections.abc import Iterator

import pytest

from tests.e2e.support.dynamo import Dynamo, Frontend, PythonWorker
from tests.e2e.support.store import Store
from tests.support.greenroom import Greenroom
from tests.support.waiting import wait_for

# Half of it is the least that a worker has to find the proxy again; Dynamo backs off for up to 5 s between attempts.
LEASE_TTL_SECONDS = 20
EDIT_SECONDS = 20


@pytest.fixture(scope="module")
def frontend(dynamo: Dynamo, store: Store) -> Iterator[Frontend]:
    with Frontend(dynamo, dynamo.environment(store.url)) as running:
        yield running


def edit_taints(worker: PythonWorker, taints: str) -> None:
    """Dynamo spreads its calls over all of ETCD_ENDPOINTS, the dead one too, and hands the error to its caller, who has
    to try again; so does this.
    """
    wait_for(lambda: worker.tell(f"taints {taints}").ok, EDIT_SECONDS, f"{worker.name} edits its taints")


def public_taints(store: Store, worker: PythonWorker) -> list[str]:
    found: list[str] = json.loads(store.entry(worker.card_key).value)["card_json"]["runtime_config"]["taints"]
    return found


def test_a_proxy_killed_while_a_worker_is_held_and_restarted(dynamo: Dynamo, store: Store, frontend: Frontend) -> None:
    """The proxy is killed in the middle of a rollout: back on its port it knows nothing but what etcd tells it, the
    worker has kept its lease and is still held, half of its gates still passed, and the other verdict releases it.
    """
    with (
        Greenroom(store.url, dynamo.folder) as greenroom,
        PythonWorker(
            dynamo,
            store,
            dynamo.environment(greenroom.url, lease_ttl_seconds=LEASE_TTL_SECONDS),
            component="patient",
            model="patient",
        ) as worker,
    ):
        worker.must("register")
        greenroom.must("verdict", worker.instance, "smoke", "passed", "--reason", "answered")
        greenroom.kill()
        greenroom.start()
        store.wait_renewed(worker.lease_id)
        assert worker.instance in greenroom.listed("held")
        assert store.keys(worker.card_key) == []
        assert frontend.chat("patient") == 404
        edit_taints(worker, "survived")
        greenroom.must("verdict", worker.instance, "latency", "passed", "--reason", "fast")
        frontend.wait_chat("patient")
        assert public_taints(store, worker) == ["survived"]


def test_one_of_two_proxies_killed(dynamo: Dynamo, store: Store, frontend: Frontend) -> None:
    """Two proxies stand in ETCD_ENDPOINTS and one machine dies: no lease is lost, and the other does all the work."""
    with (
        Greenroom(store.url, dynamo.folder, name="greenroom-first") as first,
        Greenroom(store.url, dynamo.folder, name="greenroom-second") as second,
    ):
        environment = dynamo.environment(first.url, second.url, lease_ttl_seconds=LEASE_TTL_SECONDS)
        with (
            PythonWorker(dynamo, store, environment, component="left", model="left") as left,
            PythonWorker(dynamo, store, environment, component="right", model="right") as right,
        ):
            for worker in (left, right):
                worker.must("register")
            first.kill()
            for worker in (left, right):
                store.wait_renewed(worker.lease_id)
                assert worker.instance in second.listed("held")
                edit_taints(worker, "survived")
                second.pass_gates(worker.instance)
                assert public_taints(store, worker) == ["survived"]
            for model in ("left", "right"):
                frontend.wait_chat(model)

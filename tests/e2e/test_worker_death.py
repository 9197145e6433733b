"""A worker dies without a word: what the proxy kept for it must go with its lease, with nobody to clean up."""

from collections.abc import Iterator

import pytest

from tests.e2e.support.dynamo import Dynamo, PythonWorker
from tests.e2e.support.store import EXPIRY_SLACK_SECONDS, RESERVED, Store
from tests.support.greenroom import Greenroom
from tests.support.waiting import wait_for

LEASE_TTL_SECONDS = 5


@pytest.fixture(scope="module")
def greenroom(dynamo: Dynamo, store: Store) -> Iterator[Greenroom]:
    with Greenroom(store.url, dynamo.folder) as running:
        yield running


@pytest.fixture
def worker(dynamo: Dynamo, store: Store, greenroom: Greenroom) -> Iterator[PythonWorker]:
    """A held worker with a card, an adapter and edited taints."""
    environment = dynamo.environment(greenroom.url, lease_ttl_seconds=LEASE_TTL_SECONDS)
    with PythonWorker(dynamo, store, environment, component="mortal", model="mortal") as running:
        for command in ("register", "register_lora adapter", "taints gold"):
            running.must(command)
        yield running


def assert_expires(store: Store, greenroom: Greenroom, worker: PythonWorker) -> None:
    """After the lease's time etcd knows nothing of the worker, and the command line does not name it."""
    store.wait_nothing_of(worker.lease_id, LEASE_TTL_SECONDS + EXPIRY_SLACK_SECONDS)
    assert store.lease(worker.lease_id) is None
    wait_for(lambda: worker.instance not in greenroom.must("instances", "-o", "json"), 10, "it is no longer listed")


def test_a_held_worker_killed_leaves_nothing_after_its_lease(
    store: Store, greenroom: Greenroom, worker: PythonWorker
) -> None:
    """The machine of a worker under test loses power: its card, its adapter and its record end with its lease."""
    greenroom.must("verdict", worker.instance, "smoke", "passed", "--reason", "answered")
    kept = store.of_worker(worker.lease_id)
    assert len([key for key in kept if key.startswith(RESERVED + b"held/")]) == 2
    worker.kill()
    assert_expires(store, greenroom, worker)


def test_a_released_worker_killed_leaves_nothing_after_its_lease(
    store: Store, greenroom: Greenroom, worker: PythonWorker
) -> None:
    """The same after the release: the public cards were written under the worker's lease, not under one of ours."""
    greenroom.pass_gates(worker.instance)
    assert store.keys(worker.card_key) == [worker.card_key, worker.card_key_of("adapter")]
    worker.kill()
    assert_expires(store, greenroom, worker)

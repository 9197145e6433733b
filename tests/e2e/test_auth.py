"""Dynamo with an etcd that has auth on: its workers and frontends log in through the proxy or past it, as themselves.

The frontend's user may only read what Dynamo has, the worker's may not touch rollout holds, and the proxy has its own.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.support.dynamo import Dynamo, Frontend, Mocker, PythonWorker
from tests.e2e.support.store import CARDS, RESERVED, Store
from tests.support.auth import FRONTEND, ROOT, WORKER, Users, guarded
from tests.support.greenroom import GATE_ARGUMENTS, Greenroom

MOCKED, HANDMADE = "tiny", "handmade"


@pytest.fixture
def users(store: Store, tmp_path: Path) -> Iterator[Users]:
    """The store with auth on, which is looked into as root from here on."""
    with guarded(store.etcd, tmp_path) as users:
        store.client.close()
        store.client = users.client(ROOT)
        yield users


def as_user(environment: dict[str, str], user: str) -> dict[str, str]:
    return {**environment, "ETCD_AUTH_USERNAME": user, "ETCD_AUTH_PASSWORD": user}


def test_workers_that_log_in_are_held_checked_and_routed_to(dynamo: Dynamo, store: Store, users: Users) -> None:
    """A mocker and a commanded worker, a frontend beside the proxy and one behind it; at the end nothing is left."""
    arguments = (*GATE_ARGUMENTS, *users.arguments())
    with (
        Greenroom(store.url, dynamo.folder, arguments=arguments) as greenroom,
        Frontend(dynamo, as_user(dynamo.environment(store.url), FRONTEND)) as public,
        Frontend(dynamo, as_user(dynamo.environment(greenroom.url), FRONTEND), name="inside") as inside,
        Mocker(
            dynamo, store, as_user(dynamo.environment(greenroom.url), WORKER), component="backend", model=MOCKED
        ) as mocker,
        PythonWorker(
            dynamo, store, as_user(dynamo.environment(greenroom.url), WORKER), component="hand", model=HANDMADE
        ) as worker,
    ):
        worker.must("register")
        worker.must("register_lora polite")
        worker.must("taints gold,a100")
        assert store.keys(CARDS) == []
        listed = greenroom.listed("held")
        for held in (mocker, worker):
            assert held.instance in listed
            greenroom.pass_gates(held.instance)
        for frontend in (public, inside):
            for model in (MOCKED, HANDMADE):
                frontend.wait_listed(model)
                frontend.wait_chat(model)
        assert store.entry(worker.card_key).lease == worker.lease_id
        assert b'"taints":["a100","gold"]' in store.entry(worker.card_key).value
        worker.must("taints silver")
        worker.must("unregister")
        public.wait_unlisted(HANDMADE)
        assert mocker.stop() == 0
        worker.must("shutdown")
        public.wait_unlisted(MOCKED)
        assert store.keys(CARDS) == []
        assert [key for key in store.keys(RESERVED) if b"proxies/" not in key and b"templates" not in key] == []

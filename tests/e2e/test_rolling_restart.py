"""Two replicas are restarted one after the other, behind one address, with a fleet at work: nobody notices."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.e2e.support.chats import Chats
from tests.e2e.support.dynamo import Dynamo, Frontend, Mocker, PythonWorker
from tests.e2e.support.renewals import Renewals
from tests.e2e.support.store import Store
from tests.support.balancer import Balancer
from tests.support.greenroom import Greenroom

MODEL = "rolling"
LEASE_TTL_SECONDS = 30
"""Dynamo's default."""
RESOLUTION_SECONDS = 1
"""etcd's, for what is left of a lease."""
RESTARTS = 2
"""Of each replica. A worker's keepalives are half a TTL apart, so one restart may well fall between two."""


class Site:
    """Two replicas behind a balancer; behind them two workers that serve, one that is held, and a frontend."""

    def __init__(self, dynamo: Dynamo, store: Store, stack: ExitStack) -> None:
        self.store = store
        self.replicas = [
            stack.enter_context(Greenroom(store.url, dynamo.folder, name=f"rolling-{name}")) for name in ("one", "two")
        ]
        balancer = stack.enter_context(Balancer([replica.address for replica in self.replicas]))
        environment = dynamo.environment(balancer.url, lease_ttl_seconds=LEASE_TTL_SECONDS)
        self.serving = [
            stack.enter_context(Mocker(dynamo, store, environment, component=component, model=MODEL))
            for component in ("rolling-left", "rolling-right")
        ]
        self.held = stack.enter_context(
            PythonWorker(dynamo, store, environment, component="rolling-held", model="rolling-held")
        )
        self.held.must("register")
        for worker in self.serving:
            self.replicas[0].pass_gates(worker.instance)
        self.frontend = stack.enter_context(Frontend(dynamo, environment, name="frontend-rolling"))
        self.frontend.wait_chat(MODEL)

    @property
    def leases(self) -> list[int]:
        return [worker.lease_id for worker in (*self.serving, self.held)]

    def restart_one_after_the_other(self) -> None:
        """As a supervisor does it: the next one only when this one is ready again."""
        for replica in self.replicas:
            assert replica.stop() == 0
            replica.start()


@pytest.fixture(scope="module")
def site(dynamo: Dynamo, store: Store) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(dynamo, store, stack)


def test_a_rolling_restart_loses_no_lease_and_fails_no_chat(site: Site) -> None:
    """An operator upgrades the proxies at noon: users chat all the while, workers keep their leases, and who was held
    is held afterwards and can be released.
    """
    with Renewals(site.store, site.leases) as renewals, Chats(site.frontend, MODEL) as chats:
        for _ in range(RESTARTS):
            site.restart_one_after_the_other()
        renewals.wait_each(LEASE_TTL_SECONDS)
    print(f"keepalives: worst gap {max(renewals.worst_seconds.values())} s; chats: {len(chats.statuses)}")
    assert not renewals.lost
    assert max(renewals.worst_seconds.values()) <= LEASE_TTL_SECONDS / 2 + RESOLUTION_SECONDS
    assert set(chats.statuses) == {200}
    assert site.store.keys(site.held.card_key) == []
    assert site.frontend.chat("rolling-held") == 404
    site.replicas[1].pass_gates(site.held.instance)
    site.frontend.wait_chat("rolling-held")

"""Two etcds of this ring's own, one of them behind a proxy, for clients that do to both whatever they like."""

from collections.abc import Iterator

import pytest

from tests.support.endpoints import Endpoint, Proxy, direct_endpoint, launched_proxy, wipe_beside_proxies
from tests.support.etcd import Etcd

LONG_SECONDS = 3600
"""A lease that ends in the middle would be a write on one side only."""


@pytest.fixture(scope="session")
def direct_side() -> Iterator[Endpoint]:
    with Etcd.launch() as etcd, direct_endpoint(etcd) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def proxied_side(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with Etcd.launch() as etcd, launched_proxy(etcd, tmp_path_factory.mktemp("proxied")) as proxy:
        yield proxy


@pytest.fixture
def sides(direct_side: Endpoint, proxied_side: Proxy) -> tuple[Endpoint, Proxy]:
    """Direct and proxied, both empty but for a worker of somebody else's that is held behind the proxy all the time."""
    with direct_side.etcd.client() as client:
        client.wipe()
    wipe_beside_proxies(proxied_side.etcd)
    proxied_side.held_worker(ttl_seconds=LONG_SECONDS)
    return direct_side, proxied_side

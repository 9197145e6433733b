"""LeaseLeases is relayed as it is, and so lists the leases on which proxies say that they are there, as any others.

Ids are all that it tells: what lies on such a lease is shown to nobody, clients cannot end one, and whoever ends one at
etcd itself gains nothing.
"""

import grpc
import pytest

from tests.support.endpoints import PROXIES, Proxy
from tests.support.waiting import wait_for

BEATS_SECONDS = 30
"""A proxy looks after its registration each 5 s."""


def own_leases(proxy: Proxy) -> set[int]:
    return {entry.lease for entry in proxy.public.prefix(PROXIES).kvs}


def test_all_leases_are_listed_and_no_key_of_the_proxys(proxy: Proxy) -> None:
    mine, own = proxy.client.grant(), own_leases(proxy)
    assert own
    listed = proxy.client.leases()
    assert sorted(listed) == sorted(proxy.public.leases())
    assert own | {mine} <= set(listed)
    for lease in own:
        found = proxy.client.time_to_live(lease)
        assert (found.TTL > 0, list(found.keys)) == (True, [])


def test_ending_the_proxys_lease_releases_nobody_and_it_registers_again(proxy: Proxy) -> None:
    """Somebody cleans up all leases that he finds: through the proxy he is refused, at etcd itself he is not."""
    worker, ended = proxy.held_worker(), own_leases(proxy)
    for lease in ended:
        with pytest.raises(grpc.RpcError, match="Greenroom's own"):
            proxy.client.revoke(lease)
        proxy.public.revoke(lease)
    wait_for(lambda: own_leases(proxy) - ended, BEATS_SECONDS, "registered on another lease")
    assert proxy.held(worker) == [worker.card_key]
    assert proxy.shown(worker) == []
    assert proxy.client.put(b"a", b"1").header.revision == proxy.public.revision()

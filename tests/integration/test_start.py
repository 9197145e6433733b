"""A start before a fleet that is held already. How long it takes is for tests/bench/start.py to say."""

from collections.abc import Callable

from greenroom.core.keyspace import shadow_prefix
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.endpoints import Proxy
from tests.support.etcd import Etcd
from tests.support.fleet import hold_fleet
from tests.support.greenroom import GATES

FLEET = 2000


def test_a_proxy_that_starts_before_two_thousand_held_instances_knows_them_all(
    own_etcd: Etcd, launch_proxy: Callable[..., Proxy]
) -> None:
    """Everything was restarted at once: nobody is forgotten, nobody is public, and one of them can be released."""
    with own_etcd.client() as client:
        fleet = hold_fleet(client, FLEET, gates=GATES)
    proxy = launch_proxy(own_etcd)
    assert {one.id for one in everyone(proxy)} == {held.instance for held in fleet}
    assert all(one.state == pb.INSTANCE_STATE_HELD and one.gated_keys[0].live for one in everyone(proxy))
    some = fleet[FLEET // 2]
    assert proxy.public.get(some.card) is None
    assert proxy.control.pass_gates(some.instance) == "RELEASED"
    assert proxy.public.get(some.card) is not None
    assert proxy.public.prefix(shadow_prefix(some.instance)).kvs == []


def everyone(proxy: Proxy) -> list[pb.Instance]:
    """All pages of the list."""
    found: list[pb.Instance] = []
    request = pb.ListInstancesRequest(page_size=1000)
    while not found or request.page_token:
        page = proxy.control.stub.ListInstances(request, timeout=60)
        found += page.instances
        request.page_token = page.next_page_token
    return found

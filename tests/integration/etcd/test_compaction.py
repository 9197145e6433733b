"""etcd forgets its history while workers wait: nothing that is held depends on it."""

import signal
from collections.abc import Callable

import grpc

from tests.support.client import EtcdClient
from tests.support.endpoints import Proxy
from tests.support.etcd import Etcd
from tests.support.waiting import wait_for
from tests.support.workers import Worker


def compact(client: EtcdClient) -> None:
    """Everything before the present revision is forgotten."""
    client.compact(client.revision())


def test_a_compaction_during_a_hold_changes_nothing(launch_proxy: Callable[..., Proxy], own_etcd: Etcd) -> None:
    """An operator compacts in the middle of a rollout: the worker edits its card and is released as ever."""
    proxy = launch_proxy(own_etcd)
    worker = proxy.held_worker()
    proxy.control.verdict(worker.instance, "smoke", "passed")
    compact(proxy.client)
    assert worker.swap(worker.card(taints=["gold"]), worker.read().mod_revision).succeeded
    compact(proxy.client)
    assert proxy.control.verdict(worker.instance, "latency", "passed") == "RELEASED"
    assert proxy.public.get(worker.card_key).value == worker.card(taints=["gold"])


def test_a_proxy_that_missed_what_was_compacted_finds_its_way_back(
    launch_proxy: Callable[..., Proxy], own_etcd: Etcd
) -> None:
    """A proxy is stalled, etcd is restarted, a worker dies, and history is compacted past all of that.

    Where the proxy stopped following it cannot go on: it must read everything anew, or list a dead worker for good.
    """
    proxy = launch_proxy(own_etcd)
    lost, waiting = proxy.held_worker(), proxy.held_worker()
    wait_for(lambda: listed(proxy) == {lost.instance, waiting.instance}, describe="both are listed")
    proxy.greenroom.send_signal(signal.SIGSTOP)
    own_etcd.restart()
    proxy.public.revoke(lost.lease)
    for _ in range(3):
        proxy.public.put(b"other", b"")
    compact(proxy.public)
    proxy.greenroom.send_signal(signal.SIGCONT)
    wait_for(lambda: listed(proxy) == {waiting.instance}, 30, "the dead worker is no longer listed")
    wait_for(proxy.greenroom.is_ready, 30, "the proxy is ready again")
    assert proxy.control.pass_gates(waiting.instance) == "RELEASED"
    late = Worker(proxy.client)
    assert late.register().succeeded
    wait_for(lambda: listed(proxy) == {waiting.instance, late.instance}, describe="a new worker is listed")


def listed(proxy: Proxy) -> set[str] | None:
    """The test's own workers; None as long as the proxy says that it does not know."""
    try:
        return {instance.id for instance in proxy.control.instances(component="backend")}
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            return None
        raise

"""Leases with held keys: everything hangs on the worker's own lease, and the worker is shown only what is its own."""

import grpc
import pytest

from tests.support.endpoints import Endpoint, Proxy
from tests.support.waiting import wait_for
from tests.support.workers import Worker


def test_a_lease_names_its_keys_as_their_owner_knows_them(etcd_or_proxy: Endpoint) -> None:
    """Real names, each once; neither shadows nor the record."""
    worker = Worker(etcd_or_proxy.client, ttl_seconds=600)
    worker.register_instance()
    worker.register()
    worker.register_lora()
    answer = worker.client.time_to_live(worker.lease)
    assert sorted(answer.keys) == [worker.instance_key, worker.card_key, worker.lora_key()]
    assert (answer.ID, answer.grantedTTL) == (worker.lease, 600)
    assert 590 < answer.TTL <= 600
    assert worker.client.time_to_live(worker.lease, keys=False).keys == []


def test_a_lease_that_is_not_there_is_answered_as_by_etcd(etcd_or_proxy: Endpoint) -> None:
    client = etcd_or_proxy.client
    assert client.time_to_live(123456).TTL == etcd_or_proxy.public.time_to_live(123456).TTL == -1
    assert client.keep_alive_once(123456).TTL == 0
    with pytest.raises(grpc.RpcError) as refusal:
        client.revoke(123456)
    assert (refusal.value.code(), refusal.value.details()) == (
        grpc.StatusCode.NOT_FOUND,
        "etcdserver: requested lease not found",
    )


def test_keepalives_go_one_to_one(etcd_or_proxy: Endpoint) -> None:
    worker = Worker(etcd_or_proxy.client, ttl_seconds=30)
    assert worker.client.keep_alive_once(worker.lease).TTL == 30
    assert worker.lease in worker.client.leases()


def test_a_released_instances_lease_names_its_public_keys(proxy: Proxy) -> None:
    worker = proxy.released_worker()
    assert worker.client.time_to_live(worker.lease).keys == [worker.card_key]


def test_revoking_leaves_nothing_of_a_held_worker(proxy: Proxy) -> None:
    """A held worker is stopped in good order: no shadow, no record, and nothing was ever public."""
    with proxy.public.watch(b"\x02", b"\0") as seen:
        worker = proxy.held_worker()
        worker.register_lora()
        worker.client.revoke(worker.lease)
        assert proxy.held(worker) == proxy.shown(worker) == []
        assert not proxy.has_record(worker)
        seen.wait_revision(proxy.client.put(b"end", b"").header.revision)
        assert seen.changes == [("PUT", b"end")]


def test_a_held_workers_keys_end_with_its_lease(proxy: Proxy) -> None:
    """A held worker is killed: etcd itself removes all of it, whether or not a proxy runs."""
    worker = proxy.held_worker(ttl_seconds=1)
    wait_for(lambda: not proxy.held(worker), 10, "the shadow ends with the lease")
    assert not proxy.has_record(worker)
    assert proxy.shown(worker) == []


def test_a_released_workers_keys_end_with_its_lease(proxy: Proxy) -> None:
    """What a release published is under the worker's own lease, not under one of the proxy's."""
    worker = proxy.held_worker(ttl_seconds=2)
    assert proxy.control.pass_gates(worker.instance) == "RELEASED"
    assert proxy.public.get(worker.card_key).lease == worker.lease
    wait_for(lambda: proxy.public.get(worker.card_key) is None, 10, "the public card ends with the lease")
    assert not proxy.has_record(worker)

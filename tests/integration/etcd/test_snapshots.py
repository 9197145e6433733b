"""A snapshot of etcd in the middle of a hold, and a new etcd made of it: who waited there waits here, and is released.

The rule: the snapshot goes through the endpoint, as an operator takes it, and etcd's own tool restores it.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest

from greenroom.pb.etcd import rpc_pb2
from tests.support.endpoints import RECORDS, Endpoint, Proxy, direct_endpoint
from tests.support.etcd import Etcd
from tests.support.etcdctl import Etcdctl, find_etcdctl
from tests.support.waiting import wait_for
from tests.support.workers import Worker

LONG_SECONDS = 600
READY_SECONDS = 30
FILLING = 10
"""Revisions between the snapshot and what is remembered, for what a proxy writes when etcd is back."""
MIB = 1 << 20


@contextmanager
def restored(snapshot: Path) -> Iterator[Etcd]:
    """Another etcd, on its own ports, with what the snapshot has."""
    etcd = Etcd()
    try:
        etcd.restore(snapshot, find_etcdctl())
        etcd.start()
        yield etcd
    finally:
        etcd.close()


@contextmanager
def before(etcd: Etcd, endpoint: Endpoint, launch_proxy: Callable[..., Proxy]) -> Iterator[Endpoint]:
    """The same way to the new etcd as `endpoint` was to the old one."""
    if isinstance(endpoint, Proxy):
        yield launch_proxy(etcd, arguments=("--gate", "smoke=900s", "--gate", "latency=600s"))
        return
    with direct_endpoint(etcd) as new:
        yield new


def saved(endpoint: Endpoint, folder: Path) -> Path:
    path = folder / "snapshot.db"
    Etcdctl(endpoint.url, find_etcdctl()).run("snapshot", "save", str(path))
    return path


def test_a_worker_goes_on_at_an_etcd_that_was_restored(
    own_etcd_or_proxy: Endpoint, launch_proxy: Callable[..., Proxy], tmp_path: Path
) -> None:
    """Its lease and its card are there, held or not, and it keeps the one alive and edits the other."""
    worker = Worker(own_etcd_or_proxy.client, ttl_seconds=LONG_SECONDS)
    worker.register()
    worker.register_lora()
    read = worker.read()
    snapshot = saved(own_etcd_or_proxy, tmp_path)
    worker.unregister()
    own_etcd_or_proxy.etcd.stop()
    with restored(snapshot) as etcd, before(etcd, own_etcd_or_proxy, launch_proxy) as new:
        worker.client = new.client
        assert worker.read() == read
        assert new.client.keep_alive_once(worker.lease).TTL == LONG_SECONDS
        assert sorted(new.client.time_to_live(worker.lease).keys) == [worker.card_key, worker.lora_key()]
        assert worker.swap(worker.card(taints=["gold"]), read.mod_revision).succeeded
        shown = [entry.key for entry in new.public.prefix(b"v1/mdc/").kvs]
        assert shown == ([] if isinstance(new, Proxy) else [worker.card_key, worker.lora_key()])
        new.client.revoke(worker.lease)
        assert new.public.get(worker.card_key) is None


def test_who_was_held_in_a_snapshot_is_released_after_its_restoration(
    own_etcd: Etcd, launch_proxy: Callable[..., Proxy], tmp_path: Path
) -> None:
    """One gate had passed before it; the second one's verdict is given to a proxy before the new etcd."""
    old = launch_proxy(own_etcd)
    worker, rejected = old.held_worker(ttl_seconds=LONG_SECONDS), old.held_worker(ttl_seconds=LONG_SECONDS)
    worker.register_lora()
    old.control.verdict(worker.instance, "smoke", "passed")
    old.control.verdict(rejected.instance, "smoke", "failed")
    snapshot = saved(old, tmp_path)
    own_etcd.stop()
    with restored(snapshot) as etcd:
        new = launch_proxy(etcd, arguments=("--gate", "smoke=900s", "--gate", "latency=600s"))
        assert new.held(worker) == [worker.card_key, worker.lora_key()]
        assert (new.shown(worker), new.shown(rejected)) == ([], [])
        with new.public.watch(b"v1/mdc/", b"v1/mdc0") as seen:
            assert new.control.verdict(worker.instance, "latency", "passed") == "RELEASED"
            seen.wait_events(2)
            assert list(seen.batches()) == [[worker.card_key, worker.lora_key()]]
        assert new.control.state(rejected.instance) == "REJECTED"
        assert new.public.get(worker.card_key).lease == worker.lease


def set_back(etcd: Etcd, snapshot: Path) -> None:
    """The same etcd, at its old address, with what the snapshot has: its revisions begin again from there."""
    etcd.stop()
    shutil.rmtree(etcd.folder / "data")
    etcd.restore(snapshot, find_etcdctl())
    etcd.start()


def test_what_a_proxy_knew_of_an_etcd_that_was_set_back_publishes_nobody(
    own_etcd: Etcd, launch_proxy: Callable[..., Proxy], tmp_path: Path
) -> None:
    """An operator goes back to a backup from before a release, and the proxy runs on.

    The record is held again, and written at the very revision at which it was released in the history that is gone:
    every compare of a plan that was made from there would hold.
    """
    proxy = launch_proxy(own_etcd)
    worker = proxy.held_worker(ttl_seconds=LONG_SECONDS)
    worker.register_lora()
    proxy.control.verdict(worker.instance, "smoke", "passed")
    snapshot = saved(proxy, tmp_path)
    for _ in range(FILLING):
        proxy.public.put(b"another's", b"")
    assert proxy.control.verdict(worker.instance, "latency", "passed") == "RELEASED"
    assert worker.client.delete(worker.lora_key()).deleted == 1
    record = RECORDS + worker.instance.encode()
    released_at = proxy.public.get(record).mod_revision
    set_back(own_etcd, snapshot)
    with own_etcd.client() as public:
        wait_for(proxy.greenroom.is_ready, READY_SECONDS, "the proxy follows etcd again")
        while public.put(b"another's", b"").header.revision < released_at - 1:
            pass
        proxy.control.verdict(worker.instance, "latency", "inconclusive")
        assert public.get(record).mod_revision == released_at
        assert not worker.register_lora().succeeded, "it is there, and held"
        assert public.get(worker.lora_key()) is None


@pytest.mark.parametrize("filling", [0, 3], ids=["small", "three MiB"])
def test_a_snapshot_comes_whole_and_in_pieces(etcd_or_proxy: Endpoint, filling: int) -> None:
    """Answers of 32 KiB to one small question, each with what is still to come, and a checksum of all in the last."""
    for number in range(filling):
        etcd_or_proxy.public.put(b"filling/%d" % number, bytes([number]) * MIB)
    answers = etcd_or_proxy.client.maintenance.Snapshot(rpc_pb2.SnapshotRequest(), timeout=60)
    pieces = [(answer.remaining_bytes, answer.blob) for answer in answers]
    content = b"".join(blob for _, blob in pieces)
    assert len(content) > filling * MIB
    assert sha256(content[:-32]).digest() == content[-32:]
    left = [sum(len(blob) for _, blob in pieces[number + 1 : -1]) for number in range(len(pieces))]
    assert [remaining for remaining, _ in pieces] == left

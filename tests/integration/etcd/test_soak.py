"""Thousands of watches and calls that a client gives up: what the proxy and etcd keep of them is nothing.

grpc.aio does not collect calls that were abandoned, so each that is made for a client must be ended with it.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from greenroom.pb.etcd import rpc_pb2
from tests.support.client import EtcdClient
from tests.support.endpoints import Proxy
from tests.support.etcd import Etcd
from tests.support.etcd_metrics import WATCHERS, metric, open_calls
from tests.support.waiting import wait_for
from tests.support.workers import Worker

BATCH = 100
ROUNDS = 40
ROUNDS_BEFORE = 15
"""Python's and grpc's pools fill at first, and are kept."""
GROWTH_BYTES = 20 << 20
"""2.5 KiB a call that was given up; a handler that is kept takes 8. Less cannot be told from how pools breathe: by
4 MiB, by 10 where the machine is busy. What grpc.aio itself never gives back of a cancelled call is 1 KiB.
"""


def resident_bytes(proxy: Proxy) -> int:
    pages = int(Path(f"/proc/{proxy.greenroom.pid}/statm").read_text().split()[1])
    return pages * 4096


@pytest.mark.once("what is kept of a call that was given up is the proxy's doing")
def test_thousands_of_cancelled_watches_and_held_calls_leave_nothing(
    own_etcd: Etcd, launch_proxy: Callable[..., Proxy]
) -> None:
    """4,000 of each, on one connection that stays, through one proxy."""
    proxy = launch_proxy(own_etcd)
    worker = proxy.held_worker(ttl_seconds=600)
    with EtcdClient(proxy.address) as client:
        client.get(b"a")
        calls, watchers = open_calls(own_etcd), metric(own_etcd, WATCHERS)
        for _ in range(ROUNDS_BEFORE):
            give_up(client, worker)
        before = resident_bytes(proxy)
        for _ in range(ROUNDS):
            give_up(client, worker)
        grown = resident_bytes(proxy) - before
        wait_for(lambda: not open_calls(own_etcd) - calls, describe="etcd is at work on nothing more than before")
        wait_for(lambda: metric(own_etcd, WATCHERS) <= watchers, describe="etcd has no more watches than before")
    assert grown < GROWTH_BYTES, f"{grown >> 10} KiB more after {2 * ROUNDS * BATCH} calls that were given up"
    assert proxy.control.pass_gates(worker.instance) == "RELEASED"


def give_up(client: EtcdClient, worker: Worker) -> None:
    """A batch of watches that were created and as many writes of a held card in flight go; others are answered."""
    put = rpc_pb2.PutRequest(key=worker.card_key, value=worker.card(), lease=worker.lease)
    create = rpc_pb2.WatchRequest(create_request=rpc_pb2.WatchCreateRequest(key=b"a", range_end=b"b"))
    watches = [client.watcher.Watch(iter([create])) for _ in range(BATCH)]
    for watch in watches:
        assert next(watch).created
    for call in (*watches, *[client.kv.Put.future(put) for _ in range(BATCH)]):
        call.cancel()
    # A connection on which most is given up without an answer would be taken for a hostile one.
    reads = [client.kv.Range.future(rpc_pb2.RangeRequest(key=b"a")) for _ in range(BATCH)]
    assert all(read.result().header.revision for read in reads)

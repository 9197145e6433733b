"""Clients' PINGs: as often as etcd takes them, for as long as a client likes, whatever else its connection is used for.

A gRPC server that is not told so ends a connection that is pinged each few seconds; Dynamo's workers ping when they
have been silent for 15 s, and with such a connection their leases go.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from greenroom.pb.etcd import rpc_pb2
from tests.support.endpoints import Proxy
from tests.support.raw_grpc import RawGrpc
from tests.support.workers import Worker

SPACING_SECONDS = 5.1
"""etcd's minimum is 5 s; after a third one that comes sooner it ends the connection."""
PINGS = 7
RANGE, PUT = "/etcdserverpb.KV/Range", "/etcdserverpb.KV/Put"


def watched(raw: RawGrpc) -> None:
    """etcd takes PINGs where a stream is open only."""
    create = rpc_pb2.WatchRequest(create_request=rpc_pb2.WatchCreateRequest(key=b"nothing"))
    stream = raw.start("/etcdserverpb.Watch/Watch", create.SerializeToString(), half_close=False)
    raw.wait_messages(stream, 1)


def held_calls(raw: RawGrpc, worker: Worker) -> None:
    """Calls that the proxy answers by itself. Of their answers etcd knows nothing, which is what it judges PINGs by."""
    card = rpc_pb2.PutRequest(key=worker.card_key, value=worker.card(), lease=worker.lease).SerializeToString()
    for _ in range(20):
        assert raw.call(PUT, card).status == 0
        assert raw.call(RANGE, rpc_pb2.RangeRequest(key=worker.card_key).SerializeToString()).status == 0


@pytest.fixture
def connections(proxy: Proxy) -> Iterator[dict[str, RawGrpc]]:
    """All at once, since the waiting is what takes long: silent ones and busy ones, to etcd and to the proxy."""
    worker = proxy.held_worker(ttl_seconds=600)
    with ExitStack() as stack:
        made = {
            name: stack.enter_context(RawGrpc(address))
            for name, address in {
                "direct": proxy.etcd.address,
                "silent": proxy.address,
                "with held calls before": proxy.address,
                "with held calls all the time": proxy.address,
                "with other calls all the time": proxy.address,
            }.items()
        }
        for raw in made.values():
            watched(raw)
        held_calls(made["with held calls before"], worker)
        yield made


def test_a_ping_each_five_seconds_costs_no_client_its_connection(connections: dict[str, RawGrpc], proxy: Proxy) -> None:
    """For over half a minute. Each is answered, and afterwards every connection can be used."""
    worker = proxy.held_worker(ttl_seconds=600)
    read = rpc_pb2.RangeRequest(key=b"a").SerializeToString()
    between: dict[str, Callable[[RawGrpc], object]] = {
        "with held calls all the time": lambda raw: held_calls(raw, worker),
        "with other calls all the time": lambda raw: [raw.call(RANGE, read) for _ in range(20)],
    }
    for number in range(1, PINGS + 1):
        due = time.monotonic() + SPACING_SECONDS
        for name, raw in connections.items():
            raw.ping()
            while raw.pongs < number:
                raw.read(10)
                assert (raw.goaway, raw.closed) == (None, False), f"{name}: after {number} PINGs"
            between.get(name, lambda raw: None)(raw)
        if number < PINGS:
            # The spacing is what this is about: there is nothing to wait for.
            time.sleep(max(0.0, due - time.monotonic()))
    for name, raw in connections.items():
        assert raw.call(RANGE, read).status == 0, name
        assert (raw.goaway, raw.closed) == (None, False), name

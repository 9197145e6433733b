"""An operator stops a proxy: its clients are told, what is under way is answered, and it ends in time."""

import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from greenroom.pb.etcd import rpc_pb2
from tests.support.client import CALL_SECONDS, EtcdClient
from tests.support.endpoints import SHADOWS, Proxy
from tests.support.etcd import Etcd
from tests.support.http import ask
from tests.support.raw_grpc import RawGrpc
from tests.support.waiting import wait_for
from tests.support.workers import Worker

END_SECONDS = 10
"""Supervisors kill what stays for longer. The product's own last resort lies there, so it is no timing of a machine."""
CLIENTS = 50
NO_ERROR = 0


@pytest.fixture
def stopping(own_etcd: Etcd, launch_proxy: Callable[..., Proxy]) -> Proxy:
    """A proxy of the test's own, with a held card in etcd."""
    proxy = launch_proxy(own_etcd)
    proxy.hold_somebody()
    return proxy


@pytest.fixture
def listener(stopping: Proxy) -> Iterator[RawGrpc]:
    """A client that is connected, asks for nothing, and hears what its connection is told."""
    with RawGrpc(stopping.address) as listener:
        listener.until(lambda: listener.greeted, "the greeting")
        yield listener


def test_every_client_is_told_and_the_proxy_ends_though_none_goes(stopping: Proxy, listener: RawGrpc) -> None:
    """Fifty clients with a watch each, which ends never: they read GOAWAY without an error, and are not waited for."""
    with ExitStack() as stack:
        clients = [stack.enter_context(EtcdClient(stopping.address)) for _ in range(CLIENTS)]
        watches = [stack.enter_context(client.watch()) for client in clients]
        began = time.monotonic()
        stopping.greenroom.send_signal(signal.SIGTERM)
        listener.until(lambda: listener.goaway is not None, "a word of parting")
        assert listener.goaway == (NO_ERROR, b"")
        assert stopping.greenroom.stop() == 0
        assert time.monotonic() - began < END_SECONDS
        assert all(watch.wait_end() is not None for watch in watches)
    assert "stop.took.too.long" not in stopping.greenroom.log()


def test_calls_under_way_are_answered(stopping: Proxy, listener: RawGrpc) -> None:
    """etcd is slow at that moment: a relayed Put and a worker's registration are both carried out and acknowledged."""
    worker = Worker(stopping.client, component="late")
    stopping.etcd.pause()
    plain = stopping.client.kv.Put.future(rpc_pb2.PutRequest(key=b"plain", value=b"1"), timeout=CALL_SECONDS)
    card = rpc_pb2.PutRequest(key=worker.card_key, value=worker.card(), lease=worker.lease)
    held = stopping.client.kv.Put.future(card, timeout=CALL_SECONDS)
    # A client's frames are taken in the order in which they came, so both calls have come when this one is refused.
    with pytest.raises(Exception, match="reserved"):
        stopping.client.put(b"\x01forged")
    stopping.greenroom.send_signal(signal.SIGTERM)
    listener.until(lambda: listener.goaway is not None, "a word of parting")
    stopping.etcd.resume()
    assert plain.result().header.revision > 0
    assert held.result().header.revision > 0
    assert stopping.greenroom.stop() == 0
    assert stopping.public.get(b"plain") is not None
    shadow = SHADOWS + worker.instance.encode() + b"/" + worker.card_key
    assert stopping.public.get(shadow) is not None
    assert stopping.public.get(worker.card_key) is None


def test_a_stopping_proxy_takes_no_new_clients(stopping: Proxy, listener: RawGrpc) -> None:
    """Whoever spreads connections finds another replica at once, by the port and by /ready."""
    with EtcdClient(stopping.address) as client, client.watch():
        stopping.greenroom.send_signal(signal.SIGTERM)
        listener.until(lambda: listener.goaway is not None, "a word of parting")
        assert ask(f"{stopping.greenroom.http_url}/ready").status == 503
        host, _, port = stopping.address.rpartition(":")

        def is_refused() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex((host, int(port))) != 0

        wait_for(is_refused, describe="the workers' port is closed")
    assert stopping.greenroom.stop() == 0

"""etcd goes away and comes back, on the same address, behind a proxy that stays: the workers' calls just after."""

from collections.abc import Callable

import grpc
import pytest

from greenroom.backoff import Backoff
from greenroom.pb.etcd import rpc_pb2
from greenroom.store import unary
from greenroom.store.upstream import Upstream
from tests.support.client import EtcdClient
from tests.support.endpoints import Proxy
from tests.support.etcd import Etcd
from tests.support.waiting import wait_for
from tests.support.workers import Worker

ROUNDS = 2
"""Where etcd's return falls between two tries to connect is chance."""
QUESTIONS = 3
"""An operator's commands while etcd is away. Meanwhile the pauses grow to their longest."""
LONG_PAUSE_SECONDS = 9.0
"""Between two tries it is half of this at least, longer than etcd takes to start."""


def test_a_worker_that_registers_as_soon_as_etcd_answers_again_is_not_told_that_it_is_away(
    own_etcd: Etcd, launch_proxy: Callable[..., Proxy]
) -> None:
    """The relay dials etcd anew for each client and so finds it at once; a worker takes one error for the end."""
    proxy = launch_proxy(own_etcd)
    for _ in range(ROUNDS):
        own_etcd.kill()
        wait_for(lambda: not proxy.greenroom.is_ready(), describe="the proxy notices that etcd is away")
        assert all(proxy.greenroom.cli("instances").returncode for _ in range(QUESTIONS))
        own_etcd.start()
        with EtcdClient(proxy.greenroom.address) as client:
            worker = Worker(client)
            assert worker.register().succeeded
            assert worker.read().value == worker.card()


async def test_in_a_pause_between_two_tries_only_calls_for_clients_wait(
    own_etcd: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unary, "Backoff", lambda **_: Backoff(LONG_PAUSE_SECONDS, LONG_PAUSE_SECONDS))
    request = rpc_pb2.RangeRequest(key=b"any", count_only=True)
    own_etcd.stop()
    upstream = Upstream([("127.0.0.1", own_etcd.port)])
    with pytest.raises(grpc.aio.AioRpcError):
        await upstream.range(request)
    own_etcd.start()
    with pytest.raises(grpc.aio.AioRpcError) as paused:
        await upstream.range(request)
    assert paused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert (await upstream.for_clients().range(request)).count == 0
    assert (await upstream.range(request)).count == 0
    await upstream.close()

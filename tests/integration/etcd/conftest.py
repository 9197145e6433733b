"""Somebody is held in the store during every test of this folder, and is held still, and was never seen, at its end.

The rule: whatever a test does to etcd or to the proxy, it never gets a worker released that is nobody's business.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.support.endpoints import Proxy
from tests.support.workers import Worker

TTL_SECONDS = 600
"""Longer than any test: the bystander sends no keepalives."""


@pytest.fixture
def proxy(proxy: Proxy) -> Iterator[Proxy]:
    """The run's proxy, with a bystander."""
    with bystander(proxy):
        yield proxy


@pytest.fixture
def launch_proxy(launch_proxy: Callable[..., Proxy]) -> Callable[..., Proxy]:
    """As everywhere, and a bystander is held behind each proxy that keeps back every card.

    Not looked at afterwards: such tests stop, compact and replace what is behind the proxy.
    """

    def launch(etcd: object, **options: str | int | tuple[str, ...]) -> Proxy:
        launched = launch_proxy(etcd, **options)
        if "arguments" not in options:
            hold_bystander(launched)
        return launched

    return launch


def hold_bystander(proxy: Proxy) -> Worker:
    """A model and an adapter of it."""
    worker = proxy.held_worker(component="bystander", model="bystander", ttl_seconds=TTL_SECONDS)
    assert worker.register_lora().succeeded
    return worker


@contextmanager
def bystander(proxy: Proxy) -> Iterator[None]:
    """Holds one, and at the end asks for its shadows, and for what the public ever saw of it."""
    worker = hold_bystander(proxy)
    with proxy.public.watch(worker.card_key, worker.card_key + b"0") as seen:
        yield
        assert proxy.held(worker) == [worker.card_key, worker.lora_key()]
        assert proxy.shown(worker) == []
        assert seen.changes == []

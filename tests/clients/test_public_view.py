"""What the public sees of a hold, a release and an expiry, told by a client that shares no code with the product.

etcd3-py reads etcd's own JSON port. It never sees anything of a held worker but the proxy's own keys.
"""

from collections.abc import Iterator

import pytest

from tests.support.endpoints import FIRST_CLIENT_KEY, Proxy
from tests.support.observer import Observer, Seen
from tests.support.waiting import wait_for
from tests.support.workers import Worker


@pytest.fixture
def watching(proxy: Proxy) -> Iterator[Observer]:
    with Observer(proxy.etcd.port) as observer:
        yield observer


def public(proxy: Proxy, watching: Observer) -> list[Seen]:
    """Every public event up to now."""
    revision = proxy.public.put(b"mark", b"").header.revision
    events = watching.wait_revision(revision)
    return [event for event in events if event.key >= FIRST_CLIENT_KEY and event.key != b"mark"]


def test_a_hold_a_release_and_an_expiry(proxy: Proxy, watching: Observer) -> None:
    """A worker's whole life: nothing before its release, then all of it at one revision, in the order of registration,
    under its own lease, with the values that it wrote last; and nothing after its lease.
    """
    worker = Worker(proxy.client, ttl_seconds=2)
    worker.register()
    worker.register_lora("zebra")
    worker.register_lora("ant")
    worker.swap(worker.card(taints=["gold"]), worker.read().mod_revision)
    proxy.control.verdict(worker.instance, "smoke", "passed")
    assert public(proxy, watching) == []
    assert watching.range(b"v1/", b"v10") == []

    assert proxy.control.verdict(worker.instance, "latency", "passed") == "RELEASED"
    events = public(proxy, watching)
    assert [(event.kind, event.key, event.value) for event in events] == [
        ("PUT", worker.card_key, worker.card(taints=["gold"])),
        ("PUT", worker.lora_key("zebra"), worker.lora_card("zebra")),
        ("PUT", worker.lora_key("ant"), worker.lora_card("ant")),
    ]
    assert {(event.lease, event.version) for event in events} == {(worker.lease, 1)}
    assert len({event.mod_revision for event in events}) == 1
    assert all(event.create_revision == event.mod_revision for event in events)

    wait_for(lambda: watching.range(b"v1/", b"v10") == [], describe="its keys end with its lease")
    gone = public(proxy, watching)[len(events) :]
    assert {(event.kind, event.key) for event in gone} == {("DELETE", event.key) for event in events}
    assert {entry.key for entry in watching.everything() if worker.instance.encode() in entry.key} == set()


def test_a_worker_that_is_never_released(proxy: Proxy, watching: Observer) -> None:
    """Rejected, then stopped: the public never hears of it."""
    worker = proxy.held_worker()
    assert proxy.control.verdict(worker.instance, "smoke", "failed") == "REJECTED"
    worker.client.revoke(worker.lease)
    assert public(proxy, watching) == []


def test_a_held_worker_whose_lease_expires(proxy: Proxy, watching: Observer) -> None:
    worker = proxy.held_worker(ttl_seconds=1)
    wait_for(lambda: not proxy.has_record(worker), describe="its record ends with its lease")
    assert public(proxy, watching) == []
    assert {entry.key for entry in watching.everything() if worker.instance.encode() in entry.key} == set()

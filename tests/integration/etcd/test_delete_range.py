"""Range deletes: they take what the client can see, and what is held only where the range is one instance's own."""

import pytest

from tests.support.client import EVERYTHING, delete, prefix_end
from tests.support.endpoints import SHADOWS, Endpoint, Proxy
from tests.support.workers import Worker

PUBLIC = [b"\x02", b"a", b"v1/mdd", b"\xff"]


@pytest.mark.parametrize("start", [b"\0", b"\x01", SHADOWS])
def test_deleting_everything_deletes_the_public_keys_only(etcd_or_proxy: Endpoint, start: bytes) -> None:
    """Somebody empties the store: the count and the old values are those of the keys that he could see."""
    for key in PUBLIC:
        etcd_or_proxy.public.put(key, b"was " + key)
    etcd_or_proxy.hold_somebody()
    shadows = etcd_or_proxy.public.prefix(SHADOWS).count
    answer = etcd_or_proxy.client.delete(start, b"\0", prev_kv=True)
    assert answer.deleted == len(PUBLIC)
    assert [(entry.key, entry.value) for entry in answer.prev_kvs] == [(key, b"was " + key) for key in PUBLIC]
    assert answer.header.revision == etcd_or_proxy.public.revision()
    assert etcd_or_proxy.public.range(b"\x02", b"\0").count == 0
    assert etcd_or_proxy.public.prefix(SHADOWS).count == shadows


def test_a_release_after_everything_was_deleted_still_publishes(proxy: Proxy) -> None:
    """The emptied store does not cost the waiting worker its place: it is released as if nothing had happened."""
    worker = proxy.held_worker()
    proxy.client.delete(*EVERYTHING)
    assert proxy.control.pass_gates(worker.instance) == "RELEASED"
    assert proxy.shown(worker) == [worker.card_key]


def test_deleting_all_cards_leaves_the_held_ones(proxy: Proxy) -> None:
    """An operator clears the cards that are public; who waits is not concerned."""
    held, shown = proxy.held_worker(), proxy.released_worker()
    answer = proxy.client.delete(b"v1/mdc/", b"v1/mdc0", prev_kv=True)
    assert [entry.key for entry in answer.prev_kvs] == [shown.card_key]
    assert proxy.held(held) == [held.card_key]


def test_a_prefix_delete_within_one_instance_takes_its_held_keys(proxy: Proxy) -> None:
    """A worker drops all adapters by their prefix: none of them is published later, the model is."""
    worker = proxy.held_worker()
    adapters = [worker.lora_key("one"), worker.lora_key("two")]
    for name in ("one", "two"):
        worker.register_lora(name)
    answer = proxy.client.delete(worker.card_key + b"/", prefix_end(worker.card_key + b"/"), prev_kv=True)
    assert (answer.deleted, [entry.key for entry in answer.prev_kvs]) == (2, adapters)
    assert proxy.control.pass_gates(worker.instance) == "RELEASED"
    assert proxy.shown(worker) == [worker.card_key]


def test_a_range_delete_inside_a_txn_bears_the_revision_of_its_own_write(etcd_or_proxy: Endpoint) -> None:
    """What was held went then, though nothing that is public did; a second time there is nothing left."""
    worker = Worker(etcd_or_proxy.client)
    worker.register()
    worker.register_lora()
    adapters = delete(worker.card_key + b"/", worker.card_key + b"0", prev_kv=True)
    for count in (1, 0):
        answer = worker.client.txn([], [adapters])
        deleted = answer.responses[0].response_delete_range
        assert (deleted.deleted, len(deleted.prev_kvs)) == (count, count)
        assert deleted.header.revision == answer.header.revision == etcd_or_proxy.public.revision()


def test_a_range_that_goes_beyond_one_instance_takes_no_held_key(proxy: Proxy) -> None:
    """From one worker's adapters to the end of all cards: others' keys are in it, so it is about what is public."""
    worker, other = proxy.held_worker(), proxy.released_worker()
    worker.register_lora()
    answer = proxy.client.delete(min(worker.card_key, other.card_key), b"v1/mdc0")
    assert (answer.deleted, proxy.shown(other)) == (1, [])
    assert proxy.client.delete(worker.card_key + b"/", b"v1/mdc0").deleted == 0
    assert proxy.held(worker) == [worker.card_key, worker.lora_key()]

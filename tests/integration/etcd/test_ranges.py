"""Ranges while a worker is held: what a client sees is what it would see if nothing were held.

Each test runs straight on etcd, where there is nobody to hold, and through the proxy, where somebody is held: the
expectations are the same.
"""

from typing import Any

import pytest

from tests.support.client import EVERYTHING, EtcdClient
from tests.support.endpoints import PROXIES, RESERVED, SHADOWS, Endpoint, Proxy

PUBLIC = [b"\x02", b"a", b"b", b"v1/instances/x", b"v1/mdd", b"\xff\xff"]
WHOLE_STORE = {
    "everything": EVERYTHING,
    "from two zero bytes": (b"\0\0", b"\0"),
    "from the start of the reserved area": (b"\x01", b"\0"),
    "from inside the reserved area": (SHADOWS, b"\0"),
    "from the end of the reserved area": (b"\x01\xff\xff", b"\0"),
    "up to the last key": (b"\0", b"\xff\xff\xff"),
}


@pytest.fixture
def endpoint(etcd_or_proxy: Endpoint) -> Endpoint:
    """Public keys, then a held worker where there is a proxy, then one more write."""
    for key in PUBLIC:
        etcd_or_proxy.public.put(key, b"1")
    etcd_or_proxy.hold_somebody()
    etcd_or_proxy.public.put(b"a", b"2")
    return etcd_or_proxy


def keys(client: EtcdClient, start: bytes, range_end: bytes, **options: Any) -> list[bytes]:
    return [entry.key for entry in client.range(start, range_end, **options).kvs]


@pytest.mark.parametrize(("start", "range_end"), WHOLE_STORE.values(), ids=WHOLE_STORE)
def test_a_range_over_everything_shows_no_reserved_key(endpoint: Endpoint, start: bytes, range_end: bytes) -> None:
    """A person looks at the whole store, by any of the ways to ask for it."""
    answer = endpoint.client.range(start, range_end)
    assert [entry.key for entry in answer.kvs] == PUBLIC
    assert (answer.count, answer.more) == (len(PUBLIC), False)
    assert answer.header.revision == endpoint.public.revision()


def test_limit_count_and_more_are_those_of_the_public_keys(endpoint: Endpoint) -> None:
    """A client pages through the store: its first page is full, and the pages add up."""
    first = endpoint.client.everything(limit=2)
    assert [entry.key for entry in first.kvs] == PUBLIC[:2]
    assert (first.count, first.more) == (len(PUBLIC), True)
    rest = endpoint.client.range(PUBLIC[1] + b"\0", b"\0", limit=len(PUBLIC) - 2)
    assert [entry.key for entry in rest.kvs] == PUBLIC[2:]
    assert (rest.count, rest.more) == (len(PUBLIC) - 2, False)


def test_counting_alone_counts_the_public_keys(endpoint: Endpoint) -> None:
    answer = endpoint.client.everything(count_only=True)
    assert (answer.count, len(answer.kvs)) == (len(PUBLIC), 0)


@pytest.mark.parametrize("order", ["ASCEND", "DESCEND"])
@pytest.mark.parametrize("target", ["KEY", "VERSION", "CREATE", "MOD", "VALUE"])
def test_sorted_and_limited_ranges_are_those_of_the_public_keys(endpoint: Endpoint, target: str, order: str) -> None:
    """The newest key of a store, a common question, is never one that is held."""
    expected = keys(endpoint.public, b"\x02", b"\0", sort_target=target, sort_order=order, limit=3)
    assert len(expected) == 3
    assert keys(endpoint.client, *EVERYTHING, sort_target=target, sort_order=order, limit=3) == expected


def test_revision_filters_find_no_held_key(endpoint: Endpoint) -> None:
    """What was written last, by its revision: the held cards are newer than all but one public key."""
    oldest = endpoint.public.get(PUBLIC[-1])
    assert oldest is not None
    assert keys(endpoint.client, *EVERYTHING, min_mod_revision=oldest.mod_revision) == [b"a", PUBLIC[-1]]
    assert keys(endpoint.client, *EVERYTHING, min_create_revision=oldest.create_revision + 1) == []


def test_a_range_at_an_old_revision_shows_no_reserved_key(endpoint: Endpoint) -> None:
    """A client looks back to a moment at which the worker was held already."""
    newest = endpoint.public.get(b"a")
    assert newest is not None
    answer = endpoint.client.everything(revision=newest.mod_revision - 1)
    assert [(entry.key, entry.value) for entry in answer.kvs] == [(key, b"1") for key in PUBLIC]


def test_an_exact_reserved_key_looks_absent(proxy: Proxy) -> None:
    """Somebody knows the names of the proxy's own keys: nobody can read them through it."""
    proxy.hold_somebody()
    reserved = [entry.key for entry in proxy.public.prefix(RESERVED).kvs if not entry.key.startswith(PROXIES)]
    assert len(reserved) >= 3, "two shadows and a record"
    for key in reserved:
        answer = proxy.client.range(key)
        assert (answer.count, list(answer.kvs)) == (0, [])
        assert answer.header.revision == proxy.public.revision()


def test_a_held_card_is_in_no_range_of_cards(proxy: Proxy) -> None:
    """A frontend reads all cards, at its start and each half minute: it does not matter which way it reads."""
    held = proxy.hold_somebody()
    shown = proxy.released_worker()
    for client in (proxy.client, proxy.public):
        assert [entry.key for entry in client.prefix(b"v1/mdc/").kvs] == [shown.card_key]
        assert keys(client, held[0], held[0] + b"\0") == []

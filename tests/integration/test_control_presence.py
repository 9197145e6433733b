"""What must be true of the store before a proxy serves, and how proxies see each other, on a real etcd."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator

import pytest

from greenroom.errors import StartError
from greenroom.store import presence
from greenroom.store.presence import Presence, refuse_foreign_keys
from greenroom.store.upstream import Upstream
from tests.support.client import EtcdClient
from tests.support.control_side import EventLog
from tests.support.etcd import Etcd
from tests.support.waiting import wait_for_async

TEMPLATES = b"\x01greenroom/templates"
PROXIES = b"\x01greenroom/proxies/"


@pytest.fixture
async def upstream(etcd: Etcd) -> AsyncIterator[Upstream]:
    upstream = Upstream([("127.0.0.1", etcd.port)])
    yield upstream
    await upstream.close()


def proxy_of(
    upstream: Upstream, name: str, *, templates: str = "t1", policy: str = "p1", log: EventLog | None = None
) -> Presence:
    return Presence(
        upstream,
        policy_digest=policy,
        templates_digest=templates,
        address=f"{name}:2390",
        host="node1",
        version="1",
        log=log or EventLog(),
        proxy_id=name,
    )


@pytest.mark.parametrize(
    "key", [b"\0", b"\0anything", b"\x01", b"\x01green", b"\x01greenroom", b"\x01greenroom0", b"\x01z", b"\x01\xff\xff"]
)
async def test_a_foreign_key_in_the_reserved_area_is_named(upstream: Upstream, client: EtcdClient, key: bytes) -> None:
    client.put(key, b"1")
    with pytest.raises(StartError) as refused:
        await refuse_foreign_keys(upstream)
    assert repr(key) in str(refused.value)


async def test_our_own_and_clients_keys_are_no_foreign_ones(upstream: Upstream, client: EtcdClient) -> None:
    for key in (b"\x01greenroom/instances/a", b"\x01greenroom/", b"\x02", b"v1/mdc/a"):
        client.put(key, b"1")
    await refuse_foreign_keys(upstream)


async def test_the_first_proxy_sets_the_templates_and_says_that_it_is_there(
    upstream: Upstream, client: EtcdClient
) -> None:
    first = proxy_of(upstream, "one")
    await first.register()
    kv = client.get(PROXIES + b"one")
    said = {"policy": "p1", "templates": "t1", "address": "one:2390", "host": "node1", "version": "1"}
    assert json.loads(kv.value) == said
    assert 0 < client.time_to_live(kv.lease).TTL <= presence.TTL_SECONDS
    assert client.get(TEMPLATES).value == b"t1"
    await first.close()
    assert client.prefix(PROXIES).count == 0
    assert client.leases() == []


async def test_a_proxy_with_other_templates_does_not_start_beside_one(upstream: Upstream, client: EtcdClient) -> None:
    await proxy_of(upstream, "one").register()
    with pytest.raises(StartError) as refused:
        await proxy_of(upstream, "two", templates="t2").register()
    assert "one at one:2390 on node1." in str(refused.value)
    assert [kv.key for kv in client.prefix(PROXIES).kvs] == [PROXIES + b"one"]
    assert client.get(TEMPLATES).value == b"t1"
    assert len(client.leases()) == 1


async def test_once_nobody_is_there_other_templates_may_take_over(upstream: Upstream, client: EtcdClient) -> None:
    first = proxy_of(upstream, "one")
    await first.register()
    await first.close()
    await proxy_of(upstream, "two", templates="t2").register()
    assert client.get(TEMPLATES).value == b"t2"


async def test_a_proxy_with_another_policy_starts_and_warns(upstream: Upstream) -> None:
    log = EventLog()
    await proxy_of(upstream, "one").register()
    await proxy_of(upstream, "two", policy="p2", log=log).register()
    [differs] = log.named("policy.differs")
    assert (differs["proxy"], differs["address"], differs["host"]) == ("one", "one:2390", "node1")
    await proxy_of(upstream, "three", policy="p2", log=log).register()
    assert [event["proxy"] for event in log.named("policy.differs")] == ["one", "one"]


@contextlib.asynccontextmanager
async def running(proxy: Presence) -> AsyncIterator["asyncio.Task[None]"]:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(proxy.run())
        try:
            yield task
        finally:
            task.cancel()


async def test_a_lost_registration_is_made_again(
    upstream: Upstream, client: EtcdClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "BEAT_SECONDS", 0.05)
    proxy = proxy_of(upstream, "one")
    await proxy.register()
    async with running(proxy):
        client.revoke(client.get(PROXIES + b"one").lease)

        async def registered() -> bool:
            return client.get(PROXIES + b"one") is not None

        await wait_for_async(registered, describe="it registers again")


async def test_a_proxy_whose_templates_were_replaced_meanwhile_ends(
    upstream: Upstream, client: EtcdClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "BEAT_SECONDS", 0.05)
    proxy = proxy_of(upstream, "one")
    await proxy.register()
    client.revoke(client.get(PROXIES + b"one").lease)
    await proxy_of(upstream, "two", templates="t2").register()
    with pytest.raises(StartError, match="two at two:2390 on node1"):
        await asyncio.wait_for(proxy.run(), 10)


async def test_an_outage_is_one_line_when_it_begins_and_one_when_it_ends(
    own_etcd: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "BEAT_SECONDS", 0.05)
    log, upstream = EventLog(), Upstream([("127.0.0.1", own_etcd.port)])
    proxy = proxy_of(upstream, "one", log=log)
    await proxy.register()
    async with running(proxy):
        own_etcd.stop()
        [away] = await log.wait_named("presence.away")
        assert away["reason"].startswith("UNAVAILABLE: ")
        assert "\n" not in away["reason"]
        own_etcd.start()
        await log.wait_named("presence.back")
    assert len(log.named("presence.away")) == 1
    await upstream.close()


async def test_after_a_beat_that_was_missed_it_is_tried_again_at_once(
    own_etcd: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "BEAT_SECONDS", 2.0)
    monkeypatch.setattr(presence, "TRY_SECONDS", 0.2)
    log, upstream = EventLog(), Upstream([("127.0.0.1", own_etcd.port)])
    proxy = proxy_of(upstream, "one", log=log)
    await proxy.register()
    async with running(proxy):
        own_etcd.pause()
        await log.wait_named("presence.away")
        own_etcd.resume()
        start = time.monotonic()
        await log.wait_named("presence.back")
        assert time.monotonic() - start < presence.BEAT_SECONDS
    await upstream.close()


async def test_once_its_lease_must_have_ended_it_is_not_ready_until_it_is_registered_again(
    own_etcd: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(presence, "TTL_SECONDS", 1)
    upstream = Upstream([("127.0.0.1", own_etcd.port)])
    proxy = proxy_of(upstream, "one")
    await proxy.register()
    assert proxy.why_not_ready is None

    async def is_ready() -> bool:
        return proxy.why_not_ready is None

    async def is_not_ready() -> bool:
        return proxy.why_not_ready is not None

    async with running(proxy):
        own_etcd.stop()
        await wait_for_async(is_not_ready, describe="it counts as gone")
        assert "not registered in etcd: UNAVAILABLE" in str(proxy.why_not_ready)
        own_etcd.start()
        await wait_for_async(is_ready, describe="it is registered again")
        with own_etcd.client() as client:
            assert client.get(PROXIES + b"one") is not None
    await upstream.close()

"""The follower on a real etcd: many pages, compaction, a restart, a store that was set back, addresses."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from greenroom.core.keyspace import record_key
from greenroom.store.follower import Follower
from greenroom.store.mirror import Mirror
from greenroom.store.prefix_follower import PAGE_KEYS
from greenroom.store.upstream import Upstream
from tests.support.client import EtcdClient
from tests.support.control_side import GATED, EventLog, MovableClock
from tests.support.etcd import Etcd
from tests.support.mirroring import wait_mirrored
from tests.support.registering import instance_record, instance_record_key, register
from tests.support.waiting import wait_for_async

WAIT_SECONDS = 10


@dataclass
class Following:
    follower: Follower
    log: EventLog

    async def seen(self, client: EtcdClient) -> Mirror:
        """The mirror with everything written to the reserved area so far."""
        marker = client.put(b"\x01greenroom/budget", b"").header.revision
        await asyncio.wait_for(wait_mirrored(self.follower, marker), WAIT_SECONDS)
        return self.follower.mirror


@contextlib.asynccontextmanager
async def following(*ports: int) -> AsyncIterator[Following]:
    upstream, log = Upstream([("127.0.0.1", port) for port in ports]), EventLog()
    follower = Follower(upstream, Mirror(GATED), GATED, clock=MovableClock(), log=log)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(follower.run())
        try:
            await asyncio.wait_for(follower.wait_ready(), WAIT_SECONDS)
            yield Following(follower, log)
        finally:
            running.cancel()
    await upstream.close()


async def test_more_keys_than_a_page_are_all_read_at_one_revision(etcd: Etcd, client: EtcdClient) -> None:
    fleet = {register(client).instance for _ in range(PAGE_KEYS)}
    async with following(etcd.port) as followed:
        assert {one.instance for one in followed.follower.mirror.instances()} == fleet
        assert all(one.live_cards == 1 for one in followed.follower.mirror.instances())


async def test_a_compaction_of_everything_leaves_it_following(own_etcd: Etcd) -> None:
    with own_etcd.client() as client:
        held = register(client)
        client.compact(client.revision())
        async with following(own_etcd.port) as followed:
            client.compact(client.put(b"other", b"1").header.revision)
            other = register(client)
            mirror = await followed.seen(client)
            assert {one.instance for one in mirror.instances()} == {held.instance, other.instance}


async def test_after_a_compaction_while_away_it_reads_everything_again(own_etcd: Etcd) -> None:
    with own_etcd.client() as client:
        gone = register(client, ttl_seconds=600)
    async with following(own_etcd.port) as followed:
        own_etcd.stop()
        await followed.log.wait_named("follower.away")
        own_etcd.start()
        with own_etcd.client() as client, followed.follower.subscribe() as changes:
            client.revoke(gone.lease)
            there = register(client)
            client.compact(client.revision())
            mirror = await followed.seen(client)
            assert [one.instance for one in mirror.instances()] == [there.instance]
            assert [one.instance for one in (await changes.next()).expired] == [gone.instance]


async def test_another_store_at_the_same_address_is_read_anew(own_etcd: Etcd) -> None:
    """A restored or replaced etcd starts at a lower revision: a watch from the old one would wait in silence."""
    with own_etcd.client() as client:
        register(client)
        for number in range(20):
            client.put(b"other", str(number).encode())
    async with following(own_etcd.port) as followed:
        before = followed.follower.revision
        own_etcd.kill()
        await followed.log.wait_named("follower.away")
        _empty(own_etcd)
        own_etcd.start()
        await asyncio.wait_for(followed.follower.wait_ready(), WAIT_SECONDS)
        assert followed.follower.revision < before
        assert list(followed.follower.mirror.instances()) == []


def _empty(etcd: Etcd) -> None:
    import shutil

    shutil.rmtree(etcd.folder / "data")


async def test_a_stalled_etcd_is_noticed_by_its_missing_pings(own_etcd: Etcd) -> None:
    async with following(own_etcd.port) as followed:
        own_etcd.pause()
        try:
            # Each prefix is followed by a watch of its own, and notices by itself.
            why = "etcd cannot be followed"
            await wait_for_async(lambda: _says(followed.follower, why), 25, "the reserved area's watch ended")
        finally:
            own_etcd.resume()
        await asyncio.wait_for(followed.follower.wait_ready(), WAIT_SECONDS)


async def _says(follower: Follower, why: str) -> bool:
    return why in (follower.why_not_ready or "")


async def test_of_two_addresses_the_one_that_answers_is_used(own_etcd: Etcd) -> None:
    nobody = own_etcd.peer_port + 1
    async with following(nobody, own_etcd.port) as followed:
        assert followed.follower.ready


async def test_addresses_come_from_public_instance_records_and_go_with_them(etcd: Etcd, client: EtcdClient) -> None:
    held = register(client)
    key = instance_record_key(held.instance)
    client.put(key, instance_record(held.instance, "10.0.0.7:4242"), held.lease)
    async with following(etcd.port) as followed:
        mirror = followed.follower.mirror

        async def address_is(expected: str | None) -> bool:
            return mirror.address(held.instance) == expected

        await wait_for_async(lambda: address_is("10.0.0.7:4242"))
        client.put(key, instance_record(held.instance, "10.0.0.8:4242"), held.lease)
        await wait_for_async(lambda: address_is("10.0.0.8:4242"))
        client.delete(key)
        await wait_for_async(lambda: address_is(None))


async def test_the_address_of_a_held_instance_record_is_known_too(etcd: Etcd, client: EtcdClient) -> None:
    held = register(client)
    shadow = b"\x01greenroom/held/" + held.instance.encode() + b"/" + instance_record_key(held.instance)
    client.put(shadow, instance_record(held.instance, "10.0.0.7:4242"), held.lease)
    async with following(etcd.port) as followed:
        assert followed.follower.mirror.address(held.instance) == "10.0.0.7:4242"


async def test_an_expiry_takes_everything_of_the_instance_out_of_the_mirror(etcd: Etcd, client: EtcdClient) -> None:
    held = register(client)
    async with following(etcd.port) as followed:
        client.revoke(held.lease)
        mirror = await followed.seen(client)
        assert mirror.instance(held.instance) is None
        assert client.get(record_key(held.instance)) is None

"""The previews of one proxy: how many there may be, and what ends them. The mirror is fed by hand."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from greenroom.addresses import Address
from greenroom.core.keyspace import record_key, shadow_key
from greenroom.core.record import State
from greenroom.core.selectors import Selector
from greenroom.errors import NotReady, StandingPreview, StartError, TooManyPreviews, UnknownPreview
from greenroom.preview import previews as module
from greenroom.preview.places import PreviewPlaces
from greenroom.preview.previews import NewPreview, Previews
from greenroom.preview.server import PreviewServer
from greenroom.preview.unary import OwnLeases
from greenroom.processes import can_bind
from greenroom.store.follower import Follower
from tests.support.control_side import EventLog, MovableClock
from tests.support.mirroring import GATED, ONE, TWO, delete_event, fed_follower, held, record_kv, unconnected
from tests.support.ports import free_port
from tests.support.previews import previews_before
from tests.support.registering import card_key, held_record

OF_ONE = NewPreview(actor="ann", ttl_seconds=60.0, instance=ONE, only=True, revision=7)
ALL_HELD = NewPreview(actor="ann", ttl_seconds=60.0)


class Side:
    """Previews with what they log and count; `tell` feeds the mirror."""

    def __init__(self, **options: Any) -> None:
        self.log, self.registry = EventLog(), CollectorRegistry()
        self.follower: Follower = fed_follower(held(ONE))
        self.upstream = unconnected()
        clock = MovableClock()
        self.previews: Previews = previews_before(
            self.upstream, self.follower, clock=clock, log=self.log, registry=self.registry, **options
        )

    def tell(self, *events: Any, revision: int = 20) -> None:
        self.follower.moved_on(self.follower.mirror.apply(events), revision)

    def closed(self, cause: str) -> float:
        return self.registry.get_sample_value("greenroom_previews_closed_total", {"cause": cause}) or 0.0


@asynccontextmanager
async def side(**options: Any) -> AsyncIterator[Side]:
    """Running until the end of the block, at which all are closed."""
    made = Side(**options)
    running = asyncio.ensure_future(made.previews.run())
    try:
        yield made
    finally:
        await made.previews.stop()
        running.cancel()
        await asyncio.wait([running])
        await made.upstream.close()


def released() -> Any:
    record = held_record(ONE).model_copy(update={"state": State.RELEASED})
    event = delete_event(shadow_key(ONE, card_key(ONE)), 20)
    put = type(event)(kv=record_kv(ONE, record, 20))
    return event, put


async def test_one_is_opened_listed_and_closed_by_its_caller() -> None:
    async with side() as one:
        opened = await one.previews.open(OF_ONE)
        assert [preview.preview_id for preview in one.previews] == [opened.preview_id]
        assert one.previews.get(opened.preview_id) is opened
        assert await one.previews.close(opened.preview_id, by="ann") is opened
        with pytest.raises(UnknownPreview):
            one.previews.get(opened.preview_id)
        assert one.log.named("preview.closed")[0]["cause"] == "caller"
        assert (one.closed("caller"), one.registry.get_sample_value("greenroom_previews_open")) == (1.0, 0.0)


async def test_no_more_than_so_many_and_none_while_the_proxy_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PREVIEWS", 1)
    async with side() as one:
        await one.previews.open(ALL_HELD)
        with pytest.raises(TooManyPreviews, match="1 previews are open"):
            await one.previews.open(ALL_HELD)
        await one.previews.stop()
        with pytest.raises(NotReady):
            await one.previews.open(ALL_HELD)


async def test_no_instance_takes_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its runner is killed and started again and again, and closes nothing."""
    monkeypatch.setattr(module, "MAX_OF_INSTANCE", 1)
    async with side() as one:
        await one.previews.open(OF_ONE)
        with pytest.raises(TooManyPreviews, match=f"1 previews of {ONE} are open at this proxy: close one"):
            await one.previews.open(OF_ONE)
        await one.previews.open(replace(OF_ONE, instance=TWO))
        await one.previews.open(ALL_HELD)
        await one.previews.open(ALL_HELD)


async def test_whoever_gives_up_while_one_opens_leaves_none_that_nobody_knows_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It listened for as long as the proxy ran, in no list and without an end."""
    begun, start = asyncio.Event(), PreviewServer.start

    async def slow_start(server: PreviewServer, address: Address) -> None:
        begun.set()
        await start(server, address)

    monkeypatch.setattr(PreviewServer, "start", slow_start)
    async with side() as one:
        opening = asyncio.ensure_future(one.previews.open(OF_ONE))
        await begun.wait()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        [opened] = await one.log.wait_named("preview.opened")
        assert one.previews.get(opened["preview"]).expires is not None


async def test_none_is_left_that_opens_while_the_proxy_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever closes them all has been there before."""
    begun, may_start, start = asyncio.Event(), asyncio.Event(), PreviewServer.start

    async def slow_start(server: PreviewServer, address: Address) -> None:
        begun.set()
        await may_start.wait()
        await start(server, address)

    monkeypatch.setattr(PreviewServer, "start", slow_start)
    ports = (free_port(),)
    async with side(places=PreviewPlaces(ports=ports)) as one:
        opening = asyncio.ensure_future(one.previews.open(OF_ONE))
        await begun.wait()
        await one.previews.stop()
        may_start.set()
        with pytest.raises(NotReady, match="the proxy is stopping"):
            await opening
        assert (list(one.previews), can_bind("127.0.0.1", ports[0])) == ([], True)


async def test_without_a_free_port_there_is_none() -> None:
    async with side(places=PreviewPlaces(ports=(free_port(),))) as one:
        await one.previews.open(ALL_HELD)
        with pytest.raises(TooManyPreviews, match="no port is free"):
            await one.previews.open(ALL_HELD)


async def test_a_release_closes_that_of_the_instance_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AFTERWARDS_SECONDS", 0.0)
    async with side() as one:
        await one.previews.open(OF_ONE)
        everything = await one.previews.open(ALL_HELD)
        one.tell(*released())
        [closed] = await one.log.wait_named("preview.closed")
        assert (closed["cause"], list(one.previews)) == ("released", [everything])


async def test_those_that_are_due_together_are_closed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may take a second, as while etcd is away: the last of a hundred would outlive its time by minutes."""
    all_closing, stop = asyncio.Barrier(2), PreviewServer.stop

    async def slow_stop(server: PreviewServer, words: str) -> None:
        await all_closing.wait()
        await stop(server, words)

    monkeypatch.setattr(module, "AFTERWARDS_SECONDS", 0.0)
    monkeypatch.setattr(PreviewServer, "stop", slow_stop)
    async with side() as one:
        await one.previews.open(OF_ONE)
        await one.previews.open(OF_ONE)
        one.tell(*released())
        assert len(await one.log.wait_named("preview.closed", 2)) == 2


async def test_a_released_instance_whose_later_card_waits_keeps_its_preview(monkeypatch: pytest.MonkeyPatch) -> None:
    """A LoRA adapter brings a gate of its own: it is checked through the preview, while its worker serves."""
    monkeypatch.setattr(module, "AFTERWARDS_SECONDS", 0.0)
    async with side() as one:
        adapter_published, record_released = released()
        one.tell(record_released)
        kept = await one.previews.open(OF_ONE)
        await one.previews.open(replace(ALL_HELD, ttl_seconds=0.01))
        await one.log.wait_named("preview.closed")
        assert list(one.previews) == [kept]
        one.tell(adapter_published)
        assert [closed["cause"] for closed in await one.log.wait_named("preview.closed", 2)] == ["ttl", "released"]


async def test_the_end_of_a_lease_closes_it_but_a_mirror_that_is_behind_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever opens one has read the record from etcd; the mirror may not have come to it yet."""
    monkeypatch.setattr(module, "AFTERWARDS_SECONDS", 0.0)
    async with side() as one:
        one.tell(delete_event(shadow_key(ONE, card_key(ONE)), 11), delete_event(record_key(ONE), 11), revision=11)
        ahead = await one.previews.open(replace(OF_ONE, revision=12))
        await one.previews.open(OF_ONE)
        [closed] = await one.log.wait_named("preview.closed")
        assert (closed["cause"], list(one.previews)) == ("lease ended", [ahead])


async def test_time_closes_any() -> None:
    async with side() as one:
        await one.previews.open(replace(ALL_HELD, ttl_seconds=0.01))
        [closed] = await one.log.wait_named("preview.closed")
        assert closed["cause"] == "ttl"


async def test_the_standing_one_is_nobodys_to_close() -> None:
    async with side() as one:
        address = Address("127.0.0.1", free_port())
        standing = await one.previews.open_standing(address, Selector(model="x"))
        assert (standing.preview_id, standing.address, standing.expires) == ("standing", str(address), None)
        with pytest.raises(StandingPreview):
            await one.previews.close("standing", by="ann")
        with pytest.raises(StartError, match=f"--preview-listen '{address}': {address} is taken"):
            await one.previews.open_standing(address, None)


async def test_the_standing_one_finds_a_free_port_where_it_is_told_none() -> None:
    async with side() as one:
        standing = await one.previews.open_standing(Address("127.0.0.1", 0), None)
        assert int(standing.address.rpartition(":")[2]) > 0


def test_a_selector_that_matches_everything_is_none() -> None:
    view = NewPreview(actor="", ttl_seconds=0.0, selector=Selector()).view(GATED, OwnLeases())
    assert (view.by_records, view.selector) == (False, None)

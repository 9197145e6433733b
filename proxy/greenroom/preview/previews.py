"""The previews that are open at this proxy: opened on a free port, and closed by whatever ends them.

The rule: nothing of a preview is stored. It is this process's alone, and that of one instance is over with the
instance's release or lease, by the mirror: a moment later, so that its clients have seen what was released.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Protocol

from greenroom.addresses import Address
from greenroom.core.keyspace import InstanceId
from greenroom.core.preview import View
from greenroom.core.record import State
from greenroom.core.selectors import Selector
from greenroom.core.templates import GatedKeys
from greenroom.errors import NotReady, StandingPreview, StartError, TooManyPreviews, UnknownPreview
from greenroom.preview.places import PreviewPlaces
from greenroom.preview.server import PreviewServer
from greenroom.preview.unary import OwnLeases
from greenroom.processes import free_port
from greenroom.store.changes import NOTHING, Changes, Subscription
from greenroom.store.fenced import Clock
from greenroom.store.follower import Follower
from greenroom.store.upstream import Upstream

STANDING: Final = "standing"
MAX_PREVIEWS: Final = 100
"""Each is a server with a port of its own. A runner for a fleet has one for each instance that it checks."""
MAX_OF_INSTANCE: Final = 10
"""Its runner has one. A runner that is killed again and again leaves one each time, and none of them for the others."""
AFTERWARDS_SECONDS: Final = 1.0
"""From an instance's release, or its lease's end, to its preview's."""


class Cause(StrEnum):
    """Why a preview was closed."""

    CALLER = "caller"
    TTL = "ttl"
    RELEASED = "released"
    LEASE_ENDED = "lease ended"
    STOPPING = "stopping"


_WORDS: Final = {
    Cause.CALLER: "it was closed",
    Cause.TTL: "its time is up",
    Cause.RELEASED: "its instance is released",
    Cause.LEASE_ENDED: "its instance's lease has ended",
    Cause.STOPPING: "the proxy stops",
}
_NO_MORE: Final = "the proxy is stopping"


@dataclass(frozen=True, slots=True)
class NewPreview:
    """What a preview is to show. `revision` is that of the instance's record, which its opener has read."""

    actor: str
    ttl_seconds: float
    instance: InstanceId | None = None
    selector: Selector | None = None
    only: bool = False
    revision: int = 0

    def of_record(self, revision: int) -> "NewPreview":
        """The same, of an instance whose record has this revision."""
        return replace(self, revision=revision)

    def view(self, gated_keys: GatedKeys, own_leases: OwnLeases) -> View:
        """The same for one server. A selector that matches everything is none."""
        selector = self.selector if self.selector and self.selector.model_dump(exclude_none=True) else None
        return View(gated_keys, self.instance, selector, self.only, own_leases)


@dataclass(frozen=True, slots=True)
class Preview:
    """One that is open. Without `expires` it is open as long as the proxy runs."""

    preview_id: str
    shows: NewPreview
    address: str
    created: datetime
    expires: datetime | None


class Told(Protocol):
    """Who counts."""

    def opened(self) -> None:
        """One more is open."""

    def closed(self, cause: str) -> None:
        """One fewer."""


@dataclass(slots=True)
class _Open:
    preview: Preview
    server: PreviewServer
    ends: float | None
    cause: Cause = Cause.TTL
    is_new: bool = True


class Previews:
    """Made inside the running event loop. `run` in a task; `stop` closes all."""

    def __init__(
        self,
        upstream: Upstream,
        follower: Follower,
        gated_keys: GatedKeys,
        places: PreviewPlaces,
        *,
        clock: Clock,
        log: Any,
        told: Told,
    ) -> None:
        self._upstream, self._follower, self._gated_keys = upstream, follower, gated_keys
        self._places, self._clock, self._log, self._told = places, clock, log, told
        self._open: dict[str, _Open] = {}
        self._opening: list[NewPreview] = []
        self._time: Callable[[], float] = asyncio.get_running_loop().time
        self._changes: Subscription | None = None
        self._is_stopping = False

    def __iter__(self) -> Iterator[Preview]:
        return iter([one.preview for one in self._open.values()])

    def get(self, preview_id: str) -> Preview:
        """One of them; UnknownPreview."""
        return self._found(preview_id).preview

    async def open(self, wanted: NewPreview) -> Preview:
        """Listens on a free port. TooManyPreviews where no more may be open, or no port is free.

        Whoever gives up meanwhile leaves one that is listed and has its end.
        """
        # Cut short it could listen already, and nothing would know of it, nor ever close it.
        return await asyncio.shield(self._open_whole(wanted))

    async def _open_whole(self, wanted: NewPreview) -> Preview:
        self._check_room(wanted)
        self._opening.append(wanted)
        try:
            server, address = await self._on_free_port(wanted)
        finally:
            self._opening.remove(wanted)
        if self._is_stopping:  # All that there were have been closed by now, and nobody would close this one.
            await server.stop(_NO_MORE)
            raise NotReady(_NO_MORE)
        now = self._clock()
        expires = now + timedelta(seconds=wanted.ttl_seconds)
        ends = self._time() + wanted.ttl_seconds
        return self._opened(Preview(secrets.token_hex(4), wanted, address, now, expires), server, ends)

    def _check_room(self, wanted: NewPreview) -> None:
        if self._is_stopping:
            raise NotReady(_NO_MORE)
        others = [*(one.preview.shows for one in self._open.values()), *self._opening]
        if len(others) >= MAX_PREVIEWS:
            raise TooManyPreviews(f"{MAX_PREVIEWS} previews are open at this proxy: close one, or ask another proxy")
        if wanted.instance and sum(other.instance == wanted.instance for other in others) >= MAX_OF_INSTANCE:
            raise TooManyPreviews(f"{MAX_OF_INSTANCE} previews of {wanted.instance} are open at this proxy: close one")

    async def open_standing(self, address: Address, selector: Selector | None) -> Preview:
        """The one that the proxy is started with; StartError where it cannot listen there."""
        wanted = NewPreview(actor="", ttl_seconds=0.0, selector=selector)
        server, chosen = self._server(wanted), replace(address, port=address.port or free_port(address.host))
        try:
            await server.start(chosen)
        except OSError as error:
            raise StartError(f"--preview-listen '{address}': {error}") from error
        told = self._places.told(chosen)
        return self._opened(Preview(STANDING, wanted, told, self._clock(), None), server, None)

    async def close(self, preview_id: str, *, by: str) -> Preview:
        """Ends one that was opened; UnknownPreview, or StandingPreview for the one that ends with the proxy."""
        found = self._found(preview_id)
        if found.preview.expires is None:
            raise StandingPreview("the standing preview ends with its proxy: start that without --preview-listen")
        await self._end(found, Cause.CALLER, by=by)
        return found.preview

    async def run(self) -> None:
        """Closes what is over, until cancelled."""
        changes = Changes(everything=True)
        with self._follower.subscribe() as self._changes:
            while True:
                self._look_at_instances(changes)
                # Each may take a second, for calls that hang: one after the other some would outlive their time.
                await asyncio.gather(*(self._end(one, one.cause) for one in self._due()))
                changes = await self._next_change(self._changes)

    async def stop(self) -> None:
        """Closes all; none is opened any more."""
        self._is_stopping = True
        await asyncio.gather(*(self._end(one, Cause.STOPPING) for one in list(self._open.values())))

    def _found(self, preview_id: str) -> _Open:
        found = self._open.get(preview_id)
        if found is None:
            raise UnknownPreview(f"no preview {preview_id} is open at this proxy", preview=preview_id)
        return found

    async def _on_free_port(self, wanted: NewPreview) -> tuple[PreviewServer, str]:
        for address in self._places.candidates():
            server = self._server(wanted)
            try:
                await server.start(address)
            except OSError:  # Somebody took it since it was looked at.
                await server.stop("")
                continue
            return server, self._places.told(address)
        raise TooManyPreviews(f"no port is free for one more preview: {self._places}")

    def _server(self, wanted: NewPreview) -> PreviewServer:
        return PreviewServer(lambda own: wanted.view(self._gated_keys, own), self._upstream, log=self._log)

    def _opened(self, preview: Preview, server: PreviewServer, ends: float | None) -> Preview:
        self._open[preview.preview_id] = _Open(preview, server, ends)
        self._told.opened()
        shows = preview.shows
        self._log.info(
            "preview.opened",
            preview=preview.preview_id,
            address=preview.address,
            **({"instance": shows.instance, "only": shows.only} if shows.instance else {}),
            **({} if shows.instance else {"shows": str(shows.selector or Selector())}),
            **({"expires": f"{preview.expires:%Y-%m-%d %H:%M:%S} UTC"} if preview.expires else {}),
            **({"by": shows.actor} if shows.actor else {}),
        )
        if self._changes is not None:
            self._changes.wake()
        return preview

    async def _end(self, one: _Open, cause: Cause, *, by: str = "") -> None:
        if self._open.pop(one.preview.preview_id, None) is None:
            return
        self._told.closed(cause)
        who = {"by": by} if by else {}
        self._log.info("preview.closed", preview=one.preview.preview_id, cause=str(cause), **who)
        await one.server.stop(f"the preview {one.preview.preview_id} is closed: {_WORDS[cause]}")

    def _look_at_instances(self, changes: Changes) -> None:
        """Gives those whose instance needs no preview any more their end."""
        for one in self._open.values():
            if not (one.is_new or changes.everything or one.preview.shows.instance in changes.instances):
                continue
            one.is_new = False
            cause = self._why_over(one.preview.shows)
            if cause is not None and one.cause is Cause.TTL:
                soon = self._time() + AFTERWARDS_SECONDS
                one.ends, one.cause = min(soon, one.ends or soon), cause

    def _why_over(self, shows: NewPreview) -> Cause | None:
        """What the mirror says, where it is new enough to have seen the record."""
        mirror = self._follower.mirror
        if shows.instance is None or not self._follower.ready or self._follower.revision < shows.revision:
            return None
        if not mirror.exists(shows.instance):
            return Cause.LEASE_ENDED
        mirrored = mirror.instance(shows.instance)
        is_public = mirrored is not None and mirrored.record.state is State.RELEASED and not mirrored.held
        return Cause.RELEASED if is_public else None

    def _due(self) -> list[_Open]:
        now = self._time()
        return [one for one in self._open.values() if one.ends is not None and one.ends <= now]

    async def _next_change(self, subscription: Subscription) -> Changes:
        """What changed; nothing when the next one is due, or a new one was opened."""
        ends = [one.ends for one in self._open.values() if one.ends is not None]
        try:
            async with asyncio.timeout_at(min(ends) if ends else None):
                return await subscription.next()
        except TimeoutError:
            return NOTHING

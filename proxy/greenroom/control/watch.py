"""WatchInstances: from a request to responses, for as long as the reader likes and etcd is followed.

The rule: a stream that is open shows what etcd has. When etcd cannot be followed, or was read anew and may have changed
in any way meanwhile, streams end with an error, and their readers resume from what they were told last.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager

from greenroom.control import tokens
from greenroom.control.filters import instance_filter
from greenroom.control.metrics import Metrics
from greenroom.control.tokens import ResumeToken
from greenroom.control.told import Known, Told
from greenroom.control.watch_stream import Place, WatchStream
from greenroom.control.watcher import Watcher
from greenroom.core.fleet import UNLIMITED, Limits
from greenroom.core.keyspace import InstanceId
from greenroom.errors import HistoryGone, NotReady, TooManyWatchers
from greenroom.pb.control.v1 import control_pb2
from greenroom.store.follower import Follower
from greenroom.store.history import START_ANEW, History, Past, is_behind, touched_since
from greenroom.store.upstream import Upstream

BOOKMARK_SECONDS = 30.0
"""A reader that hears nothing for much longer than this can take the stream for dead."""
CATCH_UP_SECONDS = 5.0
"""A mirror that stays further behind what another proxy told follows a member of etcd that is cut off."""
MAX_WATCHERS = 500
"""Each costs some hundred bytes an instance, and time whenever one changes."""
MAX_AT_A_TIME = 50
"""Reading a record takes 0.1 ms or so, and meanwhile the workers' calls wait."""


class Watches:
    """All open streams of one proxy."""

    def __init__(
        self,
        upstream: Upstream,
        follower: Follower,
        metrics: Metrics,
        limits: Callable[[], Limits] = lambda: UNLIMITED,
        *,
        bookmark_seconds: float = BOOKMARK_SECONDS,
        catch_up_seconds: float = CATCH_UP_SECONDS,
    ) -> None:
        self._follower, self._mirror, self._metrics = follower, follower.mirror, metrics
        self._known, self._history = Known(follower.mirror, limits), History(upstream)
        self._bookmark_seconds, self._catch_up_seconds = bookmark_seconds, catch_up_seconds
        self._open: set[Watcher] = set()
        self._stopping = False

    def stop(self) -> None:
        """Ends every stream: its reader goes on at another proxy."""
        self._stopping = True
        for watcher in self._open:
            watcher.wake()

    async def watch(
        self, request: control_pb2.WatchInstancesRequest
    ) -> AsyncGenerator[control_pb2.WatchInstancesResponse, None]:
        """Responses without end; whoever wants no more closes the iterator, and nothing of it remains.

        InvalidRequest, NotReady, HistoryGone, TooManyWatchers, and AioRpcError where etcd does not answer.
        """
        wanted = instance_filter(request)
        token = tokens.decode(request.resume_token, str(wanted)) if request.resume_token else None
        watcher = Watcher(self._mirror, self._known, wanted)
        with self._opened(watcher) as check:
            stream = WatchStream(watcher, self._place, check, str(wanted))
            if token is None:
                responses = stream.snapshot(await self._history.cluster())
            else:
                await self._resume(watcher, token, check)
                responses = stream.resumption(token)
            while True:
                for response in responses:
                    if response is None:
                        await asyncio.sleep(0)
                        continue
                    yield response
                    quiet_since = asyncio.get_running_loop().time()
                is_woken = await _woken(watcher, quiet_since + self._bookmark_seconds)
                responses = stream.changes() if is_woken else stream.bookmark()

    @contextmanager
    def _opened(self, watcher: Watcher) -> Iterator[Callable[[], None]]:
        """A place among the streams; gives what to call before anything is told."""
        if len(self._open) >= MAX_WATCHERS:
            raise TooManyWatchers(f"{MAX_WATCHERS} streams are open here, which is all that this proxy serves")
        syncs = self._follower.syncs
        self._check(syncs)
        self._open.add(watcher)
        self._metrics.watcher_opened()
        try:
            with self._follower.told(watcher):
                yield lambda: self._check(syncs)
        finally:
            self._metrics.watcher_closed()
            self._open.remove(watcher)

    def _check(self, syncs: int) -> None:
        """NotReady where what is known may not be what etcd has, or is not what the stream began with."""
        if self._stopping:
            raise NotReady("this proxy is stopping")
        if (reason := self._follower.why_not_ready) is not None:
            raise NotReady(f"instances are not known at the moment: {reason}")
        if self._follower.syncs != syncs:
            raise NotReady("etcd could not be followed for a moment: what was told before may not hold any more")

    def _place(self) -> Place:
        addresses = tuple(revision for _, revision in sorted(self._follower.address_revisions.items()))
        return Place(self._follower.revision, self._mirror.newest, addresses)

    async def _resume(self, watcher: Watcher, token: ResumeToken, check: Callable[[], None]) -> None:
        """Puts the watcher where the token's stream stood."""
        if not token.whole:
            raise HistoryGone(f"the stream broke off amid a list of changes, of which some may be gone: {START_ANEW}")
        past = await self._history.at(token.revision, self._addresses_at(token))
        if past.cluster != token.cluster or past.store_revision < token.newest:
            raise HistoryGone(f"the resume token is of another etcd, or of one that was set back since: {START_ANEW}")
        await self._catch_up(watcher, token, past, check)
        await _read(past, touched_since(past, self._mirror))
        # Without awaiting from here on: what changes from now is told by the watcher itself.
        touched = touched_since(past, self._mirror)
        watcher.resume({instance: _as_it_was(past, instance) for instance in touched})

    def _addresses_at(self, token: ResumeToken) -> dict[bytes, int]:
        """The revisions to read the addresses at; 0, which none has, where the token is of other templates."""
        prefixes = sorted(self._follower.address_revisions)
        revisions = token.addresses if len(token.addresses) == len(prefixes) else (0,) * len(prefixes)
        return dict(zip(prefixes, revisions, strict=True))

    async def _catch_up(self, watcher: Watcher, token: ResumeToken, past: Past, check: Callable[[], None]) -> None:
        """Returns when the mirror has all that the reader was told, here or by another proxy."""
        try:
            async with asyncio.timeout(self._catch_up_seconds):
                while self._follower.revision < token.newest or is_behind(self._mirror, past):
                    await watcher.some()
                    check()
        except TimeoutError:
            seen, told = self._follower.revision, max(token.newest, token.revision)
            raise NotReady(f"this proxy knows etcd up to revision {seen}, and {told} was told of: try again") from None


async def _woken(watcher: Watcher, until: float) -> bool:
    """Whether something may have changed before that time of the loop's."""
    try:
        async with asyncio.timeout_at(until):
            await watcher.some()
            return True
    except TimeoutError:
        return False


async def _read(past: Past, instances: frozenset[InstanceId]) -> None:
    """Reads the records beforehand, and lets others have their turn meanwhile."""
    for number, instance in enumerate(instances):
        past.instance(instance)
        if number % MAX_AT_A_TIME == 0:
            await asyncio.sleep(0)


def _as_it_was(past: Past, instance: InstanceId) -> Told | None:
    mirrored = past.instance(instance)
    return Told(mirrored, past.rollout_holds) if mirrored else None

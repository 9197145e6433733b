"""Following one prefix of etcd: everything under it as of one revision, then every event after it, for ever.

The rule: a lost connection, a compaction and a restored etcd are all answered the same way, by reading everything
again. So what was handed over is always a state that etcd had, and the events that led on from it, none left out.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

import grpc

from greenroom.backoff import Backoff
from greenroom.core.keyspace import prefix_end
from greenroom.pb.etcd import kv_pb2, rpc_pb2
from greenroom.store.upstream import Upstream, WatchStream, why

PAGE_KEYS = 100
"""Keys of the first Range: held cards can have hundreds of KiB each."""
PAGE_BYTES = 1024 * 1024
"""What further ones come to, as far as the page before tells: each costs a round trip, long on a busy machine."""
FEWEST_PAGE_KEYS, MOST_PAGE_KEYS = 10, 500
"""Whatever the page before tells: the next keys can be others."""
RANGE_SECONDS = 30.0
"""Longer for one page is an etcd that is away."""
NEEDS_LEADER = (("hasleader", "true"),)
"""A member without a leader says so at once, where it would leave a watch in silence, and a read for seconds."""


class Sink(Protocol):
    """Who is told. Calls come in etcd's order, never two at a time."""

    def replace(self, kvs: Sequence[kv_pb2.KeyValue], revision: int) -> None:
        """Everything under the prefix at `revision`; all that was told before is void."""

    def apply(self, events: Sequence[kv_pb2.Event], revision: int) -> None:
        """What happened up to `revision`; no events where etcd only says how far it is."""

    def away(self, reason: str) -> None:
        """etcd cannot be followed for now."""


class _WatchEndedError(Exception):
    """etcd cancelled the watch; its words."""


class PrefixFollower:
    """Follows one prefix. `run` ends only by cancellation."""

    def __init__(self, upstream: Upstream, prefix: bytes, sink: Sink, *, log: Any) -> None:
        self._upstream, self._prefix, self._sink = upstream, prefix, sink
        self._log = log.bind(prefix=repr(prefix.decode("latin-1")))
        self._backoff = Backoff()
        self._is_away = False

    async def run(self) -> NoReturn:
        """Follows, and starts again whenever that ends."""
        while True:
            try:
                await self._follow()
            except (grpc.aio.AioRpcError, _WatchEndedError) as error:
                self._went_away(error)
            await asyncio.sleep(self._backoff.next_seconds())

    def _went_away(self, error: Exception) -> None:
        reason = why(error, RANGE_SECONDS)
        if not self._is_away:
            self._is_away = True
            self._log.warning("follower.away", reason=reason)
            self._sink.away(reason)

    async def _follow(self) -> None:
        kvs, revision = await read_prefix(self._upstream, self._prefix)
        async with self._upstream.watch(metadata=NEEDS_LEADER) as stream:
            await stream.write(_watch_request(self._prefix, revision + 1))
            _check_goes_on(await _read(stream), revision)
            self._is_away = False
            self._sink.replace(kvs, revision)
            self._log.info("follower.synced", revision=revision, keys=len(kvs))
            del kvs
            self._backoff.reset()
            await self._hand_on(stream)

    async def _hand_on(self, stream: WatchStream) -> NoReturn:
        """Events as whole answers: etcd may send one in fragments."""
        events: list[kv_pb2.Event] = []
        while True:
            answer = await _read(stream)
            events.extend(answer.events)
            if not answer.fragment:
                self._sink.apply(events, answer.header.revision)
                events = []


async def read_prefix(
    upstream: Upstream, prefix: bytes, *, revision: int = 0, keys_only: bool = False
) -> tuple[list[kv_pb2.KeyValue], int]:
    """Everything under the prefix, read in pages of one and the same revision, and that revision.

    As of now where none is given; AioRpcError OUT_OF_RANGE for one that etcd does not have.
    """
    kvs: list[kv_pb2.KeyValue] = []
    request = rpc_pb2.RangeRequest(
        key=prefix, range_end=prefix_end(prefix), limit=PAGE_KEYS, revision=revision, keys_only=keys_only
    )
    while True:
        page = await upstream.range(request, timeout_seconds=RANGE_SECONDS)
        kvs.extend(page.kvs)
        request.revision = request.revision or page.header.revision
        if not page.more:
            return kvs, request.revision
        request.key = page.kvs[-1].key + b"\0"
        request.limit = page_keys(page)


def page_keys(before: rpc_pb2.RangeResponse) -> int:
    """How many keys to ask for after a page that was not empty."""
    fitting = PAGE_BYTES * len(before.kvs) // before.ByteSize()
    return max(FEWEST_PAGE_KEYS, min(fitting, MOST_PAGE_KEYS))


async def _read(stream: WatchStream) -> rpc_pb2.WatchResponse:
    answer = await stream.read()
    if answer is None:
        raise _WatchEndedError("etcd ended the watch without a reason")
    if answer.canceled:
        said = answer.cancel_reason or "no reason given"
        raise _WatchEndedError(f"compacted at {answer.compact_revision}" if answer.compact_revision else said)
    return answer


def _check_goes_on(created: rpc_pb2.WatchResponse, read_at: int) -> None:
    """The watch is on the store that was read, or on a later state of it; it cannot be on an earlier one.

    Connections are made again by themselves, between the two calls as well: etcd may have been set back meanwhile.
    """
    if created.header.revision < read_at:
        raise _WatchEndedError(f"etcd is at revision {created.header.revision}, and was read at {read_at}")


def _watch_request(prefix: bytes, start_revision: int) -> rpc_pb2.WatchRequest:
    create = rpc_pb2.WatchCreateRequest(
        key=prefix,
        range_end=prefix_end(prefix),
        start_revision=start_revision,
        progress_notify=True,
        fragment=True,
    )
    return rpc_pb2.WatchRequest(create_request=create)

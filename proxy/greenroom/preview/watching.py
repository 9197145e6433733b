"""A Watch stream through a preview: one stream to etcd, on which each of the client's watches is one of ours.

The rule: an answer is read from etcd once the one before it was taken by the client, so a reader that is slow costs
what gRPC buffers, and etcd keeps the rest. A half-close is no end: answers go on.
"""

from collections import deque
from typing import Any

import grpc

from greenroom.core.enums import check_enums
from greenroom.core.keyspace import InstanceId, shadow_prefix
from greenroom.core.keyspace import prefix_end as end_of
from greenroom.core.preview import ALL_RECORDS, NO_INSTANCES, View
from greenroom.core.preview_watch import PreviewWatch
from greenroom.pb.etcd import rpc_pb2
from greenroom.preview.fragments import fragments
from greenroom.preview.requests import parsed
from greenroom.preview.streams import Closing, Context, ended_by_etcd, messages, until_one_ends
from greenroom.store.upstream import ClientCalls, WatchStream

PAGE_RECORDS = 500
"""Records that are read at once to learn whom a selector matches; they have some KiB each."""
FUTURE_REVISION = "future revision"
"""What etcd says of a read at a revision that is not there yet; of one that is no longer there it says `compacted`."""


class WatchCall:
    """One stream; `run` serves it until it ends, by an error that says why."""

    def __init__(self, view: View, client: ClientCalls, context: Context) -> None:
        self._view, self._client, self._context = view, client, context
        self._asked: deque[tuple[PreviewWatch, bool]] = deque()
        self._watches: dict[int, tuple[PreviewWatch, bool]] = {}

    async def run(self, closing: Closing) -> None:
        """GreenroomError, or AioRpcError as etcd gave it."""
        async with self._client.watch() as upstream:
            await until_one_ends(self._requests(upstream), self._answers(upstream), closing.raises())

    async def _requests(self, upstream: WatchStream) -> None:
        async for data in messages(self._context):
            request = parsed(rpc_pb2.WatchRequest, data)
            if request.WhichOneof("request_union") == "create_request":
                request = rpc_pb2.WatchRequest(create_request=await self._created(request.create_request))
            await upstream.write(request)
        await upstream.done_writing()

    async def _created(self, create: rpc_pb2.WatchCreateRequest) -> rpc_pb2.WatchCreateRequest:
        """What to ask of etcd; it answers in the order of asking."""
        check_enums(create)
        watch = PreviewWatch(create, self._view)
        if watch.needs_records:
            watch = await self._by_records(create)
        self._asked.append((watch, create.fragment))
        return watch.upstream

    async def _answers(self, upstream: WatchStream) -> None:
        while (response := await upstream.read()) is not None:
            if response.created and self._asked:
                self._watches[response.watch_id] = self._asked.popleft()
            await self._tell(response)
            if response.canceled:
                self._watches.pop(response.watch_id, None)
        raise ended_by_etcd()

    async def _tell(self, response: rpc_pb2.WatchResponse) -> None:
        if not response.events:
            await self._context.write(response.SerializeToString())
            return
        if response.watch_id not in self._watches:
            return  # Nobody's any more; and as etcd has them they can be of reserved keys.
        watch, in_fragments = self._watches[response.watch_id]
        shown: rpc_pb2.WatchResponse | None = response
        if not watch.is_plain:
            unread = watch.unread(response)
            shadows = {(revision, one): await self._shadows(one, revision) for revision, one in unread}
            shown = watch.shown(response, shadows)
        if shown is not None:
            for part in fragments(shown) if in_fragments else (shown,):
                await self._context.write(part.SerializeToString())

    async def _by_records(self, create: rpc_pb2.WatchCreateRequest) -> PreviewWatch:
        """The watch with whom its selector matches at the revision before its first one, or now where it has none."""
        start = create.start_revision
        if start == 1:
            return PreviewWatch(create, self._view, NO_INSTANCES, 1)
        while True:
            try:
                matching, revision = await self._matching(max(start - 1, 0))
                return PreviewWatch(create, self._view, matching, revision + 1)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.OUT_OF_RANGE:
                    raise
                if FUTURE_REVISION not in (error.details() or ""):
                    # etcd says the same of a watch from there, in the words that clients know.
                    return PreviewWatch(create, self._view, NO_INSTANCES, start - 1)
            matching, revision = await self._matching(0)
            if revision < start - 1:
                return PreviewWatch(create, self._view, matching, revision + 1)

    async def _matching(self, revision: int) -> tuple[frozenset[InstanceId], int]:
        """Whom the selector matches at a revision, 0 for now; and which revision that is."""
        key, range_end = ALL_RECORDS
        matching = set[InstanceId]()
        while True:
            request = rpc_pb2.RangeRequest(key=key, range_end=range_end, revision=revision, limit=PAGE_RECORDS)
            found = await self._client.range(request)
            matching |= self._view.matching(found.kvs)
            revision = revision or found.header.revision
            if not found.more:
                return frozenset(matching), revision
            key = found.kvs[-1].key + b"\0"

    async def _shadows(self, instance: InstanceId, revision: int) -> Any:
        prefix = shadow_prefix(instance)
        request = rpc_pb2.RangeRequest(key=prefix, range_end=end_of(prefix), revision=revision)
        return (await self._client.range(request)).kvs

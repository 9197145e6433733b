"""Calls to etcd that are given up while etcd is at them: what a handler's call comes to when its client resets it.

The rule: in such numbers that a KiB each would show. What stands in for etcd takes calls and never answers, so that
it can be known that each was under way; etcd itself is seen to stop what is given up in `etcd/test_cancel.py`.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

from greenroom.http2.frames import HEADERS, PREFACE, RST_STREAM, SETTINGS, pack, pack_window_update
from greenroom.pb.etcd import rpc_pb2
from greenroom.store.upstream import ClientCalls, Upstream

BATCHES, BATCH = 10, 1_000
KIB = 1024
GROWN_BYTES = 3 << 20
"""Less than a third of what a KiB each comes to."""
HEADER_BYTES = 9


class Silent(asyncio.Protocol):
    """Takes calls and counts their frames."""

    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()
        self._rest = b""
        self._news = asyncio.Event()

    async def until(self, kind: int, count: int) -> None:
        """Returns once so many frames of a kind have come."""
        while self.seen[kind] < count:
            await self._news.wait()
            self._news.clear()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        wide = pack(SETTINGS, 0, 0) + pack_window_update(0, 1 << 30)
        cast(asyncio.Transport, transport).write(wide)
        self._rest, self._is_new = b"", True

    def data_received(self, data: bytes) -> None:
        rest = self._rest + data
        if self._is_new and len(rest) >= len(PREFACE):
            rest, self._is_new = rest.removeprefix(PREFACE), False
        while len(rest) >= HEADER_BYTES and len(rest) >= (end := HEADER_BYTES + int.from_bytes(rest[:3], "big")):
            self.seen[rest[3]] += 1
            rest = rest[end:]
        self._rest = rest
        self._news.set()


@asynccontextmanager
async def silent_etcd() -> AsyncIterator[tuple[Silent, ClientCalls]]:
    """It, and calls to it as a handler makes them."""
    silent = Silent()
    server = await asyncio.get_running_loop().create_server(lambda: silent, "127.0.0.1", 0)
    upstream = Upstream([server.sockets[0].getsockname()])
    try:
        yield silent, upstream.for_clients().as_client((("x-trace", "1"),))
    finally:
        await upstream.close()
        server.close()


async def given_up(silent: Silent, client: ClientCalls, *, batches: int) -> None:
    """Each call is cancelled once it is under way, and reset at the other side."""
    request = rpc_pb2.TxnRequest(success=[rpc_pb2.RequestOp(request_range=rpc_pb2.RangeRequest(key=b"any"))])
    for _ in range(batches):
        before = silent.seen.copy()
        calls = [asyncio.create_task(client.txn(request, timeout_seconds=60)) for _ in range(BATCH)]
        await silent.until(HEADERS, before[HEADERS] + BATCH)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        assert all(call.cancelled() for call in calls)
        await silent.until(RST_STREAM, before[RST_STREAM] + BATCH)


async def test_they_leave_no_memory() -> None:
    """What the process once needed it keeps, so the first thousands are not counted."""
    async with silent_etcd() as (silent, client):
        await given_up(silent, client, batches=BATCHES // 2)
        before = resident_bytes()
        await given_up(silent, client, batches=BATCHES)
        grown = resident_bytes() - before
    assert grown < GROWN_BYTES, f"{grown / KIB:.0f} KiB more after {BATCHES * BATCH} calls"


def resident_bytes() -> int:
    """Memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

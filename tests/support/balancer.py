"""One address before several replicas, as a TCP load balancer or a Service gives it to clients.

The rule: a new connection goes to the first replica that takes it, those in turn; an old one stays until either side
ends it. Bytes are not looked into.
"""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from tests.support.ports import free_port

CHUNK_BYTES = 65_536
START_SECONDS = 10


class Balancer:
    """Runs on a thread of its own, from `with` to its end. `targets` are host:port texts."""

    def __init__(self, targets: Sequence[str]) -> None:
        self._targets = [(host, int(port)) for host, _, port in (target.rpartition(":") for target in targets)]
        self._turn = 0
        self._loop = asyncio.new_event_loop()
        self._listening = threading.Event()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="balancer", daemon=True)
        self.address = f"127.0.0.1:{free_port()}"
        self.url = f"http://{self.address}"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listening.wait(START_SECONDS), f"the balancer does not listen on {self.address}"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        tasks: set[asyncio.Task[None]] = set()

        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._join(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(begin, *self.address.split(":"))
        self._listening.set()
        await self._ended.wait()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found = await self._dial()
        if found is None:
            writer.close()
            return
        there, back = found
        directions = [asyncio.create_task(_pump(reader, back)), asyncio.create_task(_pump(there, writer))]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            back.close()
            writer.close()

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        first, count = self._turn, len(self._targets)
        self._turn += 1
        for number in range(count):
            with suppress(OSError):
                return await asyncio.open_connection(*self._targets[(first + number) % count])
        return None


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()

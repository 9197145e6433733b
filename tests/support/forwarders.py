"""The network between the members of a cluster: TCP forwarders that can be cut.

The rule: a member that is cut off is cut off in both directions and in silence, as by a switch that died. Nothing is
refused and nothing closed; connections that were there then only hang, and are torn down when the cut is healed.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from tests.support.ports import free_port

T = TypeVar("T")

CHUNK_BYTES = 64 * 1024
# linux/netlink.h, sock_diag.h and inet_diag.h.
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_NETLINK_HEAD_BYTES = 16
_ANY = 0xFFFFFFFF
_INODE_AT = _NETLINK_HEAD_BYTES + 4 + 48 + 4 * 4
"""After the state, the socket's addresses, and four other figures."""


class Network:
    """Forwards to members by name, in a thread of its own; `with` ends it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._pids: dict[str, Callable[[], int]] = {}
        self._cut: set[str] = set()
        self._links: set[_Link] = set()
        self._servers: list[asyncio.Server] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._in_loop(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def forward(self, name: str, port: int, pid: Callable[[], int]) -> int:
        """Opens the way to a member that listens on `port`; the port to which its peers are to connect.

        `pid` says which process it is (0: none yet), by which its own connections to others are known as its own.
        """
        self._pids[name] = pid
        return self._in_loop(self._listen(name, port))

    def cut(self, name: str) -> None:
        """From here on nothing comes to this member nor from it."""
        self._in_loop(self._do(lambda: self._cut.add(name)))

    def heal(self, name: str) -> None:
        """Connections work again; those from before are torn down."""
        self._in_loop(self._do(lambda: self._heal(name)))

    async def _listen(self, name: str, port: int) -> int:
        listening = free_port()

        async def joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            link = _Link(name, asyncio.current_task())
            self._links.add(link)
            try:
                await self._carry(link, port, reader, writer)
            except asyncio.CancelledError:
                return  # torn down, and asyncio would take a cancelled task here for a mistake
            finally:
                self._links.discard(link)
                writer.transport.abort()

        self._servers.append(await asyncio.start_server(joined, "127.0.0.1", listening))
        return listening

    async def _carry(
        self, link: "_Link", port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await self._until_open(link)
        with suppress(OSError):
            # First of all: peers try again and again to reach a member that is down, and the search below is dear.
            onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                link.source = self._peer_of(writer)
                await self._until_open(link)
                await _either((self._pump(link, reader, onward_writer), self._pump(link, onward_reader, writer)))
            finally:
                onward_writer.transport.abort()

    async def _pump(self, link: "_Link", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK_BYTES):
            await self._until_open(link)
            writer.write(data)
            await writer.drain()

    async def _until_open(self, link: "_Link") -> None:
        """Hangs until it is torn down where an end is cut off."""
        if self._cut & {link.source, link.target}:
            await asyncio.Event().wait()

    def _heal(self, name: str) -> None:
        self._cut.discard(name)
        for link in self._links:
            if name in (link.source, link.target) and link.task is not None:
                link.task.cancel()

    def _peer_of(self, writer: asyncio.StreamWriter) -> str:
        """Whose process the connection is from; empty for one that is gone already."""
        inode = _inode(writer.get_extra_info("peername")[1], writer.get_extra_info("sockname")[1])
        return next((name for name, pid in self._pids.items() if inode and _has_socket(pid(), inode)), "")

    async def _do(self, action: Callable[[], None]) -> None:
        action()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        tasks = [link.task for link in self._links if link.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _in_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)


class _Link:
    """One connection between two members."""

    def __init__(self, target: str, task: "asyncio.Task[Any] | None") -> None:
        self.source, self.target, self.task = "", target, task


async def _either(pumps: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Until one ends: one side gone means both gone."""
    tasks = [asyncio.create_task(pump) for pump in pumps]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _inode(local_port: int, remote_port: int) -> int:
    """The kernel's number of the socket with these loopback ports; 0 where there is none.

    Asked by sock_diag(7) for this one socket: /proc/net/tcp lists all, and while other tests open thousands of
    connections reading it would take as long as an election.
    """
    address = socket.inet_aton("127.0.0.1") + bytes(12)
    wanted = struct.pack("!HH", local_port, remote_port) + address * 2 + struct.pack("=III", 0, _ANY, _ANY)
    question = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, _ANY) + wanted
    head = struct.pack("=IHHII", _NETLINK_HEAD_BYTES + len(question), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as asking:
        asking.sendto(head + question, (0, 0))
        answer = asking.recv(8192)
    (kind,) = struct.unpack_from("=H", answer, 4)
    return int(struct.unpack_from("=I", answer, _INODE_AT)[0]) if kind == _SOCK_DIAG_BY_FAMILY else 0


def _has_socket(pid: int, inode: int) -> bool:
    with suppress(FileNotFoundError):  # it ended meanwhile
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if str(descriptor.readlink()) == f"socket:[{inode}]":
                    return True
    return False

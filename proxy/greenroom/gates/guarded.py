"""Commands under a guard, for programs that run in an event loop: `async with guarded(command, environment) as run`.

The rule: when the block ends, however it ends (an error, a cancellation, a deadline), the command and everything that
it started is gone, and so it is when this process is killed, or the guard. What it wrote on standard error is read all
the time, so that it never waits for that, and only the end is kept.
"""

import asyncio
import os
import secrets
import select
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from greenroom.core.record import MAX_REASON_BYTES, bounded_reason
from greenroom.gates import guard
from greenroom.gates.given_back import given_back
from greenroom.gates.leftovers import MARK, end_marked

READ_BYTES: Final = 65536
END_SECONDS: Final = guard.GIVE_UP_SECONDS + 5
"""How long a guard may take from the order to end everything to its own end."""
LAST_WORDS_SECONDS: Final = 1.0
"""Standard error ends with the last process that has it; one that no guard could end must not keep us."""
INCONCLUSIVE: Final = 75
"""The exit code (EX_TEMPFAIL) by which a check says that it could not tell."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its exit code, or 128 and the signal's number; the last 2 KiB of its standard error.

    `cannot_start` are the words where it could not be started at all, else empty.
    """

    code: int
    stderr: str
    cannot_start: str = ""


@dataclass(frozen=True, slots=True)
class _Errors:
    reader: asyncio.StreamReader
    transport: asyncio.ReadTransport


class Run:
    """A command that was started under a guard."""

    def __init__(self, process: asyncio.subprocess.Process, starter: socket.socket, errors: _Errors, mark: str) -> None:
        self._process, self._starter, self._errors, self._mark = process, starter, errors, mark
        self._tail = bytearray()
        self._reading = asyncio.ensure_future(self._read())

    @property
    def stderr(self) -> str:
        """The last 2 KiB of what it has said so far on standard error."""
        return bounded_reason(self._tail.decode("utf-8", "replace")).strip()

    async def ended(self) -> Ended:
        """Waits until the command has ended and nothing of it is left."""
        code = await self._guards_end()
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._reading), LAST_WORDS_SECONDS)
        return Ended(code, self.stderr, self._cannot_start())

    async def stop(self) -> None:
        """Has everything killed, and returns when it is gone. The end of the block does it."""
        with suppress(OSError):
            self._starter.shutdown(socket.SHUT_WR)
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGCONT)  # One that somebody stopped would not hear of it.
        try:
            await asyncio.wait_for(self._process.wait(), END_SECONDS)
        except TimeoutError:
            self._process.kill()
        await self._guards_end()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._reading, LAST_WORDS_SECONDS)
        self._errors.transport.close()
        self._starter.close()

    async def _guards_end(self) -> int:
        """The code, once nothing is left: a guard that was itself killed has left its command's descendants."""
        code = await self._process.wait()
        if code >= 0:
            return code
        await asyncio.to_thread(end_marked, self._mark)
        return guard.KILLED_BY - code

    def _cannot_start(self) -> str:
        try:
            return self._starter.recv(READ_BYTES, socket.MSG_DONTWAIT | socket.MSG_PEEK).decode("utf-8", "replace")
        except OSError:
            return ""

    async def _read(self) -> None:
        while part := await self._errors.reader.read(READ_BYTES):
            self._tail += part
            del self._tail[:-MAX_REASON_BYTES]


def guarded(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    folder: Path | None = None,
    stdout: int = asyncio.subprocess.DEVNULL,
) -> AbstractAsyncContextManager[Run]:
    """Starts a command with just this environment; leaving the block ends it and all that it started.

    Its standard input is empty; its output goes nowhere, or to the descriptor `stdout`.
    """
    # A start that is cancelled is waited for: asyncio would kill the guard, and so let go of what that had started.
    return given_back(_start(command, environment, folder, stdout), Run.stop)


async def _start(command: Sequence[str], environment: Mapping[str, str], folder: Path | None, stdout: int) -> Run:
    ours, guards = socket.socketpair()
    ours.setblocking(False)
    mark = secrets.token_hex(8)
    with guards:
        errors, writing = await _errors()
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-IS", guard.__file__, str(guards.fileno()), *command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=_if_read(stdout),
                stderr=writing,
                pass_fds=(guards.fileno(),),
                env={**environment, MARK: mark},
                cwd=folder,
                start_new_session=True,
            )
        except BaseException:
            errors.transport.close()
            ours.close()
            raise
        finally:
            os.close(writing)
    return Run(process, ours, errors, mark)


def _if_read(descriptor: int) -> int:
    """The descriptor, or nowhere where its reader has gone: whoever writes there ends, and would have failed by it."""
    if descriptor < 0:
        return descriptor
    poll = select.poll()
    poll.register(descriptor, 0)  # That it is broken is told in any case.
    return asyncio.subprocess.DEVNULL if poll.poll(0) else descriptor


async def _errors() -> tuple[_Errors, int]:
    """A pipe of our own: of one that is asyncio's a process has not ended before all have let go of it."""
    reading, writing = os.pipe()
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", 0)
    )
    return _Errors(reader, transport), writing

"""The load: so many connections with one call at a time on each, from a process of its own.

The rule: it is the same for every way to etcd, and it takes the proxy's processor time itself, at the very ends of the
time that it measures. No two calls are alike: keys and values carry numbers.

    python -m tests.bench.loader < job.json
"""

import json
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from tests.bench.figures import percentile
from tests.bench.http2 import RECEIVE_BYTES, CallFailed, Connection
from tests.bench.processor import busy_seconds, cpu_seconds
from tests.bench.templates import FORMS, Template
from tests.support.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_HEADER_BYTES,
    HEADERS,
    MESSAGE_HEADER_BYTES,
    frame,
    framed_message,
)

ROOT = Path(__file__).parents[2]
STREAM_OFFSET = 5
STREAM_BYTES = 4
NANOSECONDS = 1_000_000_000
WARM_UP_STEP = NANOSECONDS // 100
CALLS_TO_WARM_UP = 3
"""So many calls each connection must have ended before any is measured: what connecting costs is not theirs."""
POLL_SECONDS = 20.0
LOADER_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Job:
    """One load. Call n has the number first_call + n, and its key's is first_key + n, modulo `keys` where given.

    It ends after `seconds`, or after `limit` calls if that is not 0. `pids` are the processes whose time is taken.
    """

    port: int
    path: str
    template: Template
    connections: int
    seconds: float
    warm_up_seconds: float = 0.0
    first_key: int = 0
    keys: int = 0
    first_call: int = 0
    limit: int = 0
    pids: tuple[int, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"template": self.template.to_json()})

    @classmethod
    def from_json(cls, text: str) -> Self:
        said = json.loads(text)
        return cls(**said | {"template": Template.from_json(said["template"]), "pids": tuple(said["pids"])})


@dataclass(frozen=True, slots=True)
class Loaded:
    """What came of it. `calls` ended within the measured `seconds`; `made` are all, with those before and after.

    `others_cpu_seconds`: what the machine worked meanwhile for neither those of `pids` nor the loader.
    """

    calls: int
    made: int
    seconds: float
    cpu_seconds: tuple[float, ...]
    others_cpu_seconds: float
    p50_us: float
    p99_us: float
    last_answer: bytes

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"last_answer": self.last_answer.hex()})

    @classmethod
    def from_json(cls, text: str) -> Self:
        said = json.loads(text)
        answer = bytes.fromhex(said["last_answer"])
        return cls(**said | {"cpu_seconds": tuple(said["cpu_seconds"]), "last_answer": answer})


def load(job: Job) -> Loaded:
    """Runs it in a process of its own. CallFailed with what went wrong there."""
    command = [sys.executable, "-m", "tests.bench.loader"]
    done = subprocess.run(
        command, input=job.to_json(), capture_output=True, text=True, cwd=ROOT, timeout=job.seconds + LOADER_SECONDS
    )
    if done.returncode != 0:
        raise CallFailed((done.stderr.strip().splitlines() or ["the loader failed"])[-1])
    return Loaded.from_json(done.stdout)


class Caller(Connection):
    """A connection whose request lies ready: each call changes the stream's number and the message's numbers in it."""

    def __init__(self, port: int, path: str, template: Template) -> None:
        super().__init__(port, path)
        self.began_at = 0
        self.begun = 0
        self._template = template
        self._lay_out(self._first_block)

    def begin(self, key: int, call: int) -> None:
        """Sends the next call."""
        request = self._request
        stream = self.next_stream().to_bytes(STREAM_BYTES, "big")
        request[STREAM_OFFSET : STREAM_OFFSET + STREAM_BYTES] = stream
        request[self._data_stream_at : self._data_stream_at + STREAM_BYTES] = stream
        for of_key, write, width, offsets in self._writes:
            text = write(key if of_key else call)
            for at in offsets:
                request[at : at + width] = text
        self.begun += 1
        self.began_at = time.perf_counter_ns()
        self._send(request)
        if self.begun == 1:
            self._lay_out(self._later_block)

    def _lay_out(self, block: bytes) -> None:
        head = frame(HEADERS, END_HEADERS, 0, block)
        data = frame(DATA, END_STREAM, 0, framed_message(self._template.message))
        self._request = bytearray(head + data)
        self._data_stream_at = len(head) + STREAM_OFFSET
        begin = len(head) + FRAME_HEADER_BYTES + MESSAGE_HEADER_BYTES
        self._writes = [
            (patch.of_key, FORMS[patch.form], patch.width, [begin + at for at in patch.offsets])
            for patch in self._template.patches
        ]


class _Load:
    """One run of a job."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._made = 0
        self._latencies: list[int] = []
        self._last_answer = b""
        self._poll = select.epoll()
        self._callers: dict[int, Caller] = {}
        for _ in range(job.connections):
            caller = Caller(job.port, job.path, job.template)
            self._callers[caller.socket.fileno()] = caller
            self._poll.register(caller.socket, select.EPOLLIN)

    def run(self) -> Loaded:
        for caller in self._callers.values():
            self._begin(caller)
        self._warm_up()
        self._latencies.clear()
        before, began_at = self._clocks(), time.perf_counter_ns()
        self._serve(began_at + int(self._job.seconds * NANOSECONDS))
        after, ended_at = self._clocks(), time.perf_counter_ns()
        busy, own, *used = (new - old for new, old in zip(after, before, strict=True))
        latencies = sorted(self._latencies)
        self._drain()
        return Loaded(
            calls=len(latencies),
            made=self._made,
            seconds=(ended_at - began_at) / NANOSECONDS,
            cpu_seconds=tuple(used),
            others_cpu_seconds=max(0.0, busy - own - sum(used)),
            p50_us=percentile(latencies, 50) / 1000,
            p99_us=percentile(latencies, 99) / 1000,
            last_answer=self._last_answer,
        )

    @property
    def _used_up(self) -> bool:
        return bool(self._job.limit) and self._made >= self._job.limit

    def _clocks(self) -> list[float]:
        """The machine's processor time, this process's own, that of each of `pids`."""
        return [busy_seconds(), time.process_time(), *(cpu_seconds(pid) for pid in self._job.pids)]

    def _begin(self, caller: Caller) -> None:
        if self._used_up:
            caller.began_at = 0
            return
        job, number = self._job, self._made
        self._made += 1
        key = job.first_key + (number % job.keys if job.keys else number)
        caller.begin(key, job.first_call + number)

    def _warm_up(self) -> None:
        """For its time, and until no connection is new any more to any proxy."""
        self._serve(time.perf_counter_ns() + int(self._job.warm_up_seconds * NANOSECONDS))
        while self._job.warm_up_seconds and not self._used_up and any(map(_is_new, self._callers.values())):
            self._serve(time.perf_counter_ns() + WARM_UP_STEP)

    def _serve(self, until: int) -> None:
        now = time.perf_counter_ns
        while now() < until and not self._used_up:
            for caller in self._answered():
                self._latencies.append(now() - caller.began_at)
                self._begin(caller)

    def _drain(self) -> None:
        """Lets the calls end that are still on their way: what they write is to be counted."""
        left = {caller for caller in self._callers.values() if caller.began_at}
        while left:
            left.difference_update(self._answered())

    def _answered(self) -> Iterator[Caller]:
        """Waits for bytes, and gives the callers one by one whose calls they end."""
        ready = self._poll.poll(POLL_SECONDS)
        if not ready:
            raise CallFailed(f"{self._job.path}: nothing came for {POLL_SECONDS:g} s")
        for descriptor, _ in ready:
            caller = self._callers[descriptor]
            if caller.feed(caller.socket.recv(RECEIVE_BYTES)):
                self._last_answer = caller.one_message()
                yield caller
            elif caller.replies:
                caller.send_replies()


def _is_new(caller: Caller) -> bool:
    return caller.begun <= CALLS_TO_WARM_UP


def main() -> None:
    """One job in, what came of it out."""
    print(_Load(Job.from_json(sys.stdin.read())).run().to_json())


if __name__ == "__main__":
    main()

"""One write, seen by 100 watchers that are connected by one of the four ways.

The rule: the write goes straight to etcd, and the next one only when every watcher has seen the last: what the proxy
uses, it uses for the watchers.
"""

import select
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from greenroom.pb.etcd import rpc_pb2
from tests.bench.figures import Case, Sample, percentile
from tests.bench.http2 import CALL_SECONDS, RECEIVE_BYTES, CallFailed, Connection
from tests.bench.processor import cpu_seconds
from tests.bench.session import MICROSECONDS, Session
from tests.bench.ways import Way
from tests.bench.workloads import PREFIX, SMALL_BYTES, value
from tests.support.client import prefix_end

SUBJECT = "fan-out"
WATCHERS = 100
WATCHED = PREFIX.replace(b"/kv/", b"/watched/")
WATCH, PUT = "/etcdserverpb.Watch/Watch", "/etcdserverpb.KV/Put"


def measure(session: Session) -> None:
    """All rounds."""
    if not session.options.wants(SUBJECT):
        return
    for number in session.rounds():
        session.say(f"round {number}: {SUBJECT}")
        for name in session.order(number):
            way = session.ways[name]
            with _watching(way.port) as watchers, Connection(session.etcd.port, PUT) as writer:
                figures = _Events(session, watchers, writer, way).measured()
            session.samples.append(Sample(Case(SUBJECT, WATCHERS), name, number, figures))
        session.forget()


@contextmanager
def _watching(port: int) -> Iterator[Sequence[Connection]]:
    create = rpc_pb2.WatchCreateRequest(key=WATCHED, range_end=prefix_end(WATCHED))
    message = rpc_pb2.WatchRequest(create_request=create).SerializeToString()
    with ExitStack() as stack:
        watchers = [stack.enter_context(Connection(port, WATCH)) for _ in range(WATCHERS)]
        for watcher in watchers:
            watcher.open(message)
            assert rpc_pb2.WatchResponse.FromString(watcher.next_message()).created
        yield watchers


class _Events:
    """Writes and waits, for one way's share of a round."""

    def __init__(self, session: Session, watchers: Sequence[Connection], writer: Connection, way: Way) -> None:
        self._session = session
        self._writer = writer
        self._pids = session.pids(way)
        self._watchers = {watcher.socket.fileno(): watcher for watcher in watchers}
        self._poll = select.epoll()
        for watcher in watchers:
            self._poll.register(watcher.socket, select.EPOLLIN)

    def measured(self) -> dict[str, float]:
        options = self._session.options
        self._write_for(options.warm_up_seconds)
        before, began_at = self._cpu(), time.perf_counter()
        latencies = sorted(self._write_for(options.seconds))
        seconds, delivered = time.perf_counter() - began_at, len(latencies) * WATCHERS
        costs = [(now - then) / delivered * MICROSECONDS for now, then in zip(self._cpu(), before, strict=True)]
        return {
            "calls_per_second": delivered / seconds,
            "p50_us": percentile(latencies, 50) * MICROSECONDS,
            "p99_us": percentile(latencies, 99) * MICROSECONDS,
            **dict(zip(("etcd_cpu_us", "cpu_us"), costs, strict=False)),
        }

    def _cpu(self) -> list[float]:
        return [cpu_seconds(pid) for pid in self._pids]

    def _write_for(self, seconds: float) -> list[float]:
        """Seconds from each write to the last of its watchers."""
        latencies = []
        until = time.perf_counter() + seconds
        while (began_at := time.perf_counter()) < until:
            number = self._session.numbers(1)
            put = rpc_pb2.PutRequest(key=WATCHED + b"%012d" % number, value=value(number, SMALL_BYTES))
            self._writer.send(put.SerializeToString())
            self._wait_for_all(b"%012d" % number)
            latencies.append(time.perf_counter() - began_at)
            self._writer.end()
        return latencies

    def _wait_for_all(self, number: bytes) -> None:
        waiting = set(self._watchers)
        while waiting:
            ready = self._poll.poll(CALL_SECONDS)
            if not ready:
                raise CallFailed(f"{len(waiting)} of {WATCHERS} watchers have not seen {number!r}")
            for descriptor, _ in ready:
                watcher = self._watchers[descriptor]
                if watcher.feed(watcher.socket.recv(RECEIVE_BYTES)):
                    raise CallFailed("a watch ended")
                watcher.send_replies()
                if any(number in message for message in watcher.messages()):
                    waiting.discard(descriptor)

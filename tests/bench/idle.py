"""Workers that do nothing but live: one connection each, a lease, and a keepalive each 15 s, as Dynamo sends them.

The rule: each measurement has a proxy of its own, freshly started, for memory that was used once comes back to nobody
else's account. Straight to etcd there is nothing to measure.
"""

import select
import time
from contextlib import ExitStack

from greenroom.pb.etcd import rpc_pb2
from tests.bench.figures import Case, Sample
from tests.bench.http2 import RECEIVE_BYTES, Connection
from tests.bench.processor import cpu_seconds, memory_kib
from tests.bench.session import MICROSECONDS, Session
from tests.bench.ways import GREENROOM, GRPC_PROXY, HAPROXY, Way, open_way

SUBJECT = "idle"
WAYS = (GRPC_PROXY, HAPROXY, GREENROOM)
KEEP_ALIVE = "/etcdserverpb.Lease/LeaseKeepAlive"
INTERVAL_SECONDS = 15.0
TTL_SECONDS = 60
"""Twice Dynamo's, for all of them must have been connected before the first one's time is up."""
FIRST_CLIENTS = 50
"""Connected before memory is first read: what a proxy loads or sets up once is not a connection's."""
AT_ONCE = 50
ROUNDS_AT_MOST = 2
SECONDS_FACTOR = 3
"""Keepalives are few: they are watched for longer than calls, and in fewer rounds."""
THOUSAND = 1000


def measure(session: Session) -> None:
    """Its rounds of each number of clients."""
    if not session.options.wants(SUBJECT):
        return
    for number in range(1, min(session.options.rounds, ROUNDS_AT_MOST) + 1):
        for clients in session.options.idle_clients:
            for name in session.order(number, WAYS):
                session.say(f"round {number}: {clients} idle clients, {name}")
                with open_way(name, session.etcd, session.folder) as way:
                    figures = _Clients(session, way, clients).measured()
                session.samples.append(Sample(Case(SUBJECT, clients), name, number, figures))


class _Clients:
    """So many clients of one way, from their connecting to their end."""

    def __init__(self, session: Session, way: Way, count: int) -> None:
        assert way.pid is not None
        self._session = session
        self._way = way
        self._pid = way.pid
        self._count = count
        self._connections: list[Connection] = []
        self._requests: list[bytes] = []

    def measured(self) -> dict[str, float]:
        first = self._session.leases(self._count + FIRST_CLIENTS, TTL_SECONDS)
        with ExitStack() as stack:
            self._connect(stack, first, FIRST_CLIENTS)
            before = memory_kib(self._pid)
            self._connect(stack, first + FIRST_CLIENTS, self._count)
            seconds = self._session.options.seconds * SECONDS_FACTOR
            used = self._keep_alive_for(seconds)
            memory = memory_kib(self._pid) - before
        self._session.revoke(first, self._count + FIRST_CLIENTS)
        return {
            "cpu_us_per_second_per_1000": used / seconds * MICROSECONDS / self._count * THOUSAND,
            "memory_kib_per_connection": memory / self._count,
        }

    def _connect(self, stack: ExitStack, first_lease: int, count: int) -> None:
        """Some at a time, each with its first keepalive answered before the next ones come."""
        for start in range(0, count, AT_ONCE):
            leases = range(first_lease + start, first_lease + min(start + AT_ONCE, count))
            opened = [stack.enter_context(Connection(self._way.port, KEEP_ALIVE)) for _ in leases]
            for connection, lease in zip(opened, leases, strict=True):
                self._requests.append(rpc_pb2.LeaseKeepAliveRequest(ID=lease).SerializeToString())
                connection.open(self._requests[-1])
            for connection in opened:
                _check(connection.next_message())
            self._connections += opened

    def _keep_alive_for(self, seconds: float) -> float:
        """Keepalives at their interval, spread evenly over the clients; the processor time that they took."""
        poll = select.epoll()
        by_descriptor = {connection.socket.fileno(): connection for connection in self._connections}
        for descriptor in by_descriptor:
            poll.register(descriptor, select.EPOLLIN)
        pause = INTERVAL_SECONDS / len(self._connections)
        before, began_at, sent, answered = cpu_seconds(self._pid), time.perf_counter(), 0, 0
        while (now := time.perf_counter() - began_at) < seconds or answered < sent:
            while now < seconds and sent * pause <= now:
                number = sent % len(self._connections)
                self._connections[number].send_more(self._requests[number])
                sent += 1
            for descriptor, _ in poll.poll(pause):
                connection = by_descriptor[descriptor]
                connection.feed(connection.socket.recv(RECEIVE_BYTES))
                connection.send_replies()
                for message in connection.messages():
                    _check(message)
                    answered += 1
        return cpu_seconds(self._pid) - before


def _check(message: bytes) -> None:
    """An answer of TTL 0 says that the lease has ended."""
    assert rpc_pb2.LeaseKeepAliveResponse.FromString(message).TTL, "a lease ended though it was kept alive"

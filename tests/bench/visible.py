"""How long until the public sees a card: from the last verdict to a watcher on etcd, against from a Put to the same.

The rule: both ends are the same light client, and the card has the same bytes. Verdict and Put take turns, one by one.
"""

import time

from greenroom.pb.control.v1 import control_pb2
from greenroom.pb.etcd import rpc_pb2
from tests.bench.cards import TTL_SECONDS, card, card_key, registration
from tests.bench.figures import Case, Sample, percentile
from tests.bench.http2 import Connection
from tests.bench.session import MICROSECONDS, Session
from tests.bench.ways import DIRECT, GREENROOM
from tests.support.client import prefix_end
from tests.support.workers import CARDS

SUBJECT = "visible"
CALLS_PER_SECOND = 20
"""So many of each kind for each second of a round."""
WATCH, PUT, TXN = "/etcdserverpb.Watch/Watch", "/etcdserverpb.KV/Put", "/etcdserverpb.KV/Txn"
VERDICT = "/greenroom.control.v1.Control/ReportVerdict"


def measure(session: Session) -> None:
    """All rounds."""
    if not session.options.wants(SUBJECT):
        return
    for number in session.rounds():
        session.say(f"round {number}: {SUBJECT}")
        with _Sight(session) as sight:
            count = max(2, int(session.options.seconds * CALLS_PER_SECOND))
            pairs = [(sight.verdict(), sight.put()) for _ in range(count)]
        for way, seconds in zip((GREENROOM, DIRECT), zip(*pairs, strict=True), strict=True):
            ordered = sorted(seconds)
            figures = {
                "p50_us": percentile(ordered, 50) * MICROSECONDS,
                "p99_us": percentile(ordered, 99) * MICROSECONDS,
            }
            session.samples.append(Sample(Case(SUBJECT, 1), way, number, figures))


class _Sight:
    """A watcher on etcd, and the two who make cards public."""

    def __init__(self, session: Session) -> None:
        greenroom = session.ways[GREENROOM]
        assert greenroom.control_port is not None
        self._session = session
        self._watcher = Connection(session.etcd.port, WATCH)
        self._writer = Connection(session.etcd.port, PUT)
        self._worker = Connection(greenroom.port, TXN)
        self._reporter = Connection(greenroom.control_port, VERDICT)
        create = rpc_pb2.WatchCreateRequest(key=CARDS, range_end=prefix_end(CARDS))
        self._watcher.open(rpc_pb2.WatchRequest(create_request=create).SerializeToString())
        self._watcher.next_message()

    def __enter__(self) -> "_Sight":
        return self

    def __exit__(self, *_: object) -> None:
        for connection in (self._watcher, self._writer, self._worker, self._reporter):
            connection.close()

    def verdict(self) -> float:
        """Seconds from the sending of a new worker's one verdict."""
        lease = self._session.lease(TTL_SECONDS)
        answer = rpc_pb2.TxnResponse.FromString(self._worker.call(registration().filled(lease, 0)))
        assert answer.succeeded, "the card was not taken"
        request = control_pb2.ReportVerdictRequest(
            name=f"instances/{lease:x}", gate="smoke", attempt=1, outcome=control_pb2.OUTCOME_PASSED, reporter="bench"
        )
        return self._seen(self._reporter, request.SerializeToString(), lease)

    def put(self) -> float:
        """Seconds from the sending of a Put of the same bytes."""
        lease = self._session.lease(TTL_SECONDS)
        request = rpc_pb2.PutRequest(key=card_key(lease), value=card(lease, 0), lease=lease)
        return self._seen(self._writer, request.SerializeToString(), lease)

    def _seen(self, caller: Connection, message: bytes, lease: int) -> float:
        """Sends it, waits for the watcher, then for the answer, and takes the card away."""
        key, began_at = card_key(lease), time.perf_counter()
        caller.send(message)
        self._wait_for(key)
        seconds = time.perf_counter() - began_at
        caller.end()
        self._session.client.revoke(lease)
        self._wait_for(key)
        return seconds

    def _wait_for(self, key: bytes) -> None:
        while not any(key in message for message in self._watcher.messages()):
            self._watcher.receive()
        self._watcher.send_replies()

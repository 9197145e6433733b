"""What the relay tells is counted always and logged sparingly."""

from greenroom.errors import EtcdRefusal, RefusedWrite
from greenroom.observer import QUIET_SECONDS, LoggingObserver
from greenroom.relay.calls import SilentObserver


class Counter(SilentObserver):
    def __init__(self) -> None:
        self.failures: list[str] = []
        self.relayed = 0

    def call_relayed(self, path: bytes) -> None:
        self.relayed += 1

    def upstream_failed(self, address: str, reason: str) -> None:
        self.failures.append(address)

    def call_refused(self, path: bytes, code: int) -> None:
        self.failures.append(f"{path.decode()} {code}")


class Log:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def warning(self, event: str, **fields: object) -> None:
        self.lines.append((event, str(fields.get("address") or fields.get("why"))))

    def error(self, event: str, **fields: object) -> None:
        self.lines.append((event, str(fields["exc_info"])))


def test_a_thousand_failed_dials_are_one_line_and_a_thousand_counts() -> None:
    counter, log, now = Counter(), Log(), [100.0]
    observer = LoggingObserver(counter, log, lambda: now[0])
    for _ in range(1000):
        observer.upstream_failed("127.0.0.1:2379", "refused")
    observer.upstream_failed("127.0.0.1:2380", "refused")
    assert len(counter.failures) == 1001
    assert log.lines == [("upstream.failed", "127.0.0.1:2379"), ("upstream.failed", "127.0.0.1:2380")]
    now[0] += QUIET_SECONDS
    observer.upstream_failed("127.0.0.1:2379", "refused")
    assert len(log.lines) == 3


def test_a_bug_is_logged_with_its_error() -> None:
    log = Log()
    observer = LoggingObserver(Counter(), log, lambda: 0.0)
    observer.handler_failed(b"/etcdserverpb.KV/Txn", RuntimeError("broken"))
    observer.inspector_failed(b"/etcdserverpb.KV/Txn", RuntimeError("also"))
    observer.connection_failed(RuntimeError("worst"))
    assert log.lines == [("handler.failed", "broken"), ("inspector.failed", "also"), ("connection.failed", "worst")]


def test_calls_are_only_counted() -> None:
    counter, log = Counter(), Log()
    LoggingObserver(counter, log, lambda: 0.0).call_relayed(b"/etcdserverpb.KV/Range")
    assert (counter.relayed, log.lines) == (1, [])


def test_what_a_rule_refuses_is_counted_and_told_unless_etcd_would_refuse_it_too() -> None:
    counter, log = Counter(), Log()
    observer = LoggingObserver(counter, log, lambda: 0.0)
    for error in (RefusedWrite("no such lease"), RefusedWrite("nor this"), EtcdRefusal("etcdserver: key not found")):
        observer.call_answered_with(b"/etcdserverpb.KV/Put", error)
    assert counter.failures == ["/etcdserverpb.KV/Put 3"] * 3
    assert log.lines == [("call.refused", "no such lease")]

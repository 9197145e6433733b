"""What the relay tells: counted always, logged where somebody should look, and that not oftener than helps."""

from collections.abc import Callable
from typing import Any

from greenroom.errors import EtcdRefusal, GreenroomError
from greenroom.relay.calls import Observer

QUIET_SECONDS = 10.0
"""When etcd is away every client's every attempt fails: one line in that time says as much as a thousand."""


class LoggingObserver:
    """Passes everything on to `counter`, and logs failures. `now` is monotonic seconds."""

    def __init__(self, counter: Observer, log: Any, now: Callable[[], float]) -> None:
        self._counter, self._log, self._now = counter, log, now
        self._last_logged: dict[tuple[str, str], float] = {}
        self.connection_opened = counter.connection_opened
        self.connection_closed = counter.connection_closed
        self.call_relayed = counter.call_relayed
        self.call_handed_over = counter.call_handed_over
        self.call_refused = counter.call_refused

    def upstream_failed(self, address: str, reason: str) -> None:
        """An address of etcd's could not be dialled or went away."""
        self._counter.upstream_failed(address, reason)
        if self._is_due("upstream", address):
            self._log.warning("upstream.failed", address=address, reason=reason)

    def inspector_failed(self, path: bytes, error: Exception) -> None:
        """A bug: one call was answered INTERNAL."""
        self._counter.inspector_failed(path, error)
        if self._is_due("inspector", path.decode("latin-1")):
            self._log.error("inspector.failed", path=path, exc_info=error)

    def handler_failed(self, path: bytes, error: Exception) -> None:
        """A bug: one call was answered INTERNAL."""
        self._counter.handler_failed(path, error)
        if self._is_due("handler", path.decode("latin-1")):
            self._log.error("handler.failed", path=path, exc_info=error)

    def call_answered_with(self, path: bytes, error: GreenroomError) -> None:
        """A rule was against a call: the worker may give up, and nobody else knows why."""
        self._counter.call_refused(path, error.code.value[0])
        if not isinstance(error, EtcdRefusal) and self._is_due("call", f"{path.decode('latin-1')} {error.reason}"):
            self._log.warning("call.refused", path=path.decode("latin-1"), reason=error.reason, why=str(error))

    def connection_failed(self, error: Exception) -> None:
        """A bug of the relay: one connection was ended."""
        self._counter.connection_failed(error)
        if self._is_due("connection", type(error).__name__):
            self._log.error("connection.failed", exc_info=error)

    def _is_due(self, what: str, which: str) -> bool:
        """Bounded: paths are the inspector's, addresses the settings'."""
        now = self._now()
        if now - self._last_logged.get((what, which), -QUIET_SECONDS) < QUIET_SECONDS:
            return False
        self._last_logged[what, which] = now
        return True

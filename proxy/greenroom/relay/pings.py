"""PING: what passes to upstream, and how the relay knows that upstream still lives.

etcd counts PINGs that come sooner than 5 s after each other without DATA or HEADERS of its own in between, and ends the
connection after a few. Clients measure bandwidth with PINGs on answers that etcd never sent. Rule: once a call was
handed over, one PING passes for each thing upstream said, and the others are answered here. A stopped upstream can no
longer be noticed by the client then, so with open streams and silence the relay asks itself.
"""

from typing import Final

from greenroom.http2.frames import ACK, PING, Error, Fault, pack

from .limits import Limits

_OWN_PAYLOAD: Final = b"greenrm?"


class Pings:
    """The PING state of one connection. Times are seconds on the clock of `now`."""

    __slots__ = ("_asked", "_asked_last", "_limits", "_passed_last", "handed_over", "heard", "upstream_spoke")

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self._asked: float | None = None  # when the unanswered PING of our own went up
        self._asked_last = self._passed_last = float("-inf")
        self.heard = now  # when upstream's last bytes came
        self.handed_over = False  # a call of this connection was ever answered here
        self.upstream_spoke = True  # DATA or HEADERS since the last PING that passed

    def may_pass(self, now: float) -> bool:
        """Whether a client's PING goes up; it counts as gone if so."""
        if self.handed_over and not self.upstream_spoke:
            return False
        if now - self._asked_last < self._limits.ping_spacing_seconds:
            return False
        self.upstream_spoke = False
        self._passed_last = now
        return True

    def is_own_answer(self, payload: bytes) -> bool:
        """Whether an acknowledgement from upstream is for our own PING; it is settled then."""
        if self._asked is None or payload != _OWN_PAYLOAD:
            return False
        self._asked = None
        return True

    def due(self) -> float:
        """When `tick` has something to do next, if nothing comes from upstream until then."""
        limits = self._limits
        if self._asked is not None:
            return max(self._asked, self.heard) + limits.upstream_ping_seconds
        return max(self.heard + limits.upstream_silence_seconds, self._passed_last + limits.ping_spacing_seconds)

    def tick(self, now: float) -> bytes | None:
        """With open streams: the PING to send up now, if any. Faults when upstream is silent for too long."""
        if now < self.due():
            return None
        if self._asked is not None:
            raise Fault(Error.INTERNAL_ERROR, "upstream does not answer")
        self._asked = self._asked_last = self._passed_last = now
        return pack(PING, 0, 0, _OWN_PAYLOAD)


def answered(payload: bytes) -> bytes:
    """The acknowledgement of a PING."""
    return pack(PING, ACK, 0, payload)

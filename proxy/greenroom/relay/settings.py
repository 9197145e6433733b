"""SETTINGS frames: what is changed in passing, and what both ends may count on (RFC 9113, section 6.5).

Rule: one frame in is one frame out, one acknowledgement in is one out. Clients' HEADER_TABLE_SIZE is told to upstream
as 0, so that its response blocks never use a dynamic table: any of them may be left out, and others put between.
"""

from greenroom.http2.frames import DEFAULT_WINDOW_BYTES, Error, Fault
from greenroom.http2.header_blocks import LARGEST_TABLE_BYTES
from greenroom.http2.settings import HEADER_TABLE_SIZE, INITIAL_WINDOW_SIZE, Settings, last_value


def for_upstream(settings: Settings) -> Settings:
    """A client's settings as upstream is to see them."""
    return [(HEADER_TABLE_SIZE, 0), *(item for item in settings if item[0] != HEADER_TABLE_SIZE)]


def for_client(settings: Settings) -> Settings:
    """Upstream's settings as a client is to see them."""
    return [(name, min(value, LARGEST_TABLE_BYTES) if name == HEADER_TABLE_SIZE else value) for name, value in settings]


class Announced:
    """One peer's SETTINGS that the other has not acknowledged, and the stream window that is safe meanwhile.

    A smaller INITIAL_WINDOW_SIZE counts at once, a larger one when the acknowledgement has passed: the peer may apply
    either at any moment in between.
    """

    __slots__ = ("_acknowledged", "_limit", "_pending", "initial_window")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._acknowledged = DEFAULT_WINDOW_BYTES
        self._pending: tuple[int | None, ...] = ()  # mostly none, in thousands of connections
        self.initial_window = DEFAULT_WINDOW_BYTES

    def announce(self, settings: Settings) -> None:
        """A SETTINGS frame came. Faults when too many wait for their acknowledgement."""
        if len(self._pending) >= self._limit:
            raise Fault(Error.ENHANCE_YOUR_CALM, "too many SETTINGS without acknowledgement")
        self._pending += (last_value(settings, INITIAL_WINDOW_SIZE),)
        self._settle()

    def acknowledge(self) -> None:
        """The oldest one's acknowledgement passes. Faults if there is none."""
        if not self._pending:
            raise Fault(Error.PROTOCOL_ERROR, "SETTINGS acknowledgement without SETTINGS")
        value, *rest = self._pending
        self._pending = tuple(rest)
        if value is not None:
            self._acknowledged = value
        self._settle()

    def _settle(self) -> None:
        pending = [value for value in self._pending if value is not None]
        self.initial_window = min([self._acknowledged, *pending])

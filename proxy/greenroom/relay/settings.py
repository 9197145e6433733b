"""SETTINGS frames: what is changed in passing, and what both ends may count on (RFC 9113, section 6.5).

Rule: one frame in is one frame out, one acknowledgement in is one out. Clients' HEADER_TABLE_SIZE is told to upstream
as 0, so that its response blocks never use a dynamic table: any of them may be left out, and others put between.
"""

import struct
from typing import Final

from .frames import DEFAULT_FRAME_BYTES, DEFAULT_WINDOW_BYTES, LARGEST_WINDOW_BYTES, Error, Fault
from .header_blocks import LARGEST_TABLE_BYTES

HEADER_TABLE_SIZE: Final = 1
INITIAL_WINDOW_SIZE: Final = 4
MAX_FRAME_SIZE: Final = 5
_LARGEST_FRAME_BYTES: Final = 2**24 - 1
_SETTING: Final = struct.Struct(">HL")

Settings = list[tuple[int, int]]


def parse(payload: bytes) -> Settings:
    """The settings in order. Faults for a broken frame or a value that RFC 9113 forbids."""
    if len(payload) % _SETTING.size:
        raise Fault(Error.FRAME_SIZE_ERROR, "SETTINGS frame of a broken length")
    settings = list(_SETTING.iter_unpack(payload))
    for name, value in settings:
        if name == INITIAL_WINDOW_SIZE and value > LARGEST_WINDOW_BYTES:
            raise Fault(Error.FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE too large")
        if name == MAX_FRAME_SIZE and not DEFAULT_FRAME_BYTES <= value <= _LARGEST_FRAME_BYTES:
            raise Fault(Error.PROTOCOL_ERROR, "MAX_FRAME_SIZE out of range")
    return settings


def build(settings: Settings) -> bytes:
    return b"".join(_SETTING.pack(name, value) for name, value in settings)


def for_upstream(settings: Settings) -> Settings:
    """A client's settings as upstream is to see them."""
    return [(HEADER_TABLE_SIZE, 0), *(item for item in settings if item[0] != HEADER_TABLE_SIZE)]


def for_client(settings: Settings) -> Settings:
    """Upstream's settings as a client is to see them."""
    return [(name, min(value, LARGEST_TABLE_BYTES) if name == HEADER_TABLE_SIZE else value) for name, value in settings]


def last_value(settings: Settings, name: int) -> int | None:
    """The value that counts where a setting comes several times, None where it does not come."""
    return next((value for found, value in reversed(settings) if found == name), None)


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

"""SETTINGS frames: reading and writing them (RFC 9113, section 6.5).

Rule: a value that RFC 9113 forbids is a fault of whoever sent it, and found here.
"""

import struct
from typing import Final

from greenroom.http2.frames import DEFAULT_FRAME_BYTES, LARGEST_WINDOW_BYTES, Error, Fault

HEADER_TABLE_SIZE: Final = 1
ENABLE_PUSH: Final = 2
MAX_CONCURRENT_STREAMS: Final = 3
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


def last_value(settings: Settings, name: int) -> int | None:
    """The value that counts where a setting comes several times, None where it does not come."""
    return next((value for found, value in reversed(settings) if found == name), None)

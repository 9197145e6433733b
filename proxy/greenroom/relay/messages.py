"""Puts gRPC messages together from DATA frames (five bytes of prefix: compressed flag, length; then the message).

Rule: nothing is believed of a message before it is whole, but its faults are found as soon as its prefix says so.
"""

import struct
from collections.abc import Iterator
from typing import Final

from .calls import Code, Refuse
from .compressed import GZIP, decompressed
from .limits import Bound

PREFIX_BYTES: Final = 5
_PREFIX: Final = struct.Struct(">BL")

_PLAIN: Final = 0
_COMPRESSED: Final = 1
TOO_MANY_COPIES: Final = Refuse(Code.RESOURCE_EXHAUSTED, "too many unfinished messages on this connection")


def frame_message(message: bytes) -> bytes:
    """A message, not compressed, with its prefix."""
    return _PREFIX.pack(0, len(message)) + message


def fault_of_prefix(content: bytes, limit_bytes: int, encoding: bytes) -> Refuse | None:
    """What is wrong with the message that starts at the beginning of `content`, as far as its prefix is there.

    In the words of etcd's library, but for the limit, which is the relay's own.
    """
    if content and content[0] == _COMPRESSED and encoding != GZIP:
        return Refuse(Code.INTERNAL, "grpc: compressed flag set with identity or empty encoding")
    if content and content[0] > _COMPRESSED:
        return Refuse(Code.INTERNAL, f"grpc: received unexpected payload format {content[0]}")
    if len(content) < PREFIX_BYTES:
        return None
    size = _PREFIX.unpack_from(content)[1]
    if size > limit_bytes:
        return Refuse(Code.RESOURCE_EXHAUSTED, f"grpc: received message larger than max ({size} vs. {limit_bytes})")
    return None


class MessageAssembly:
    """The unfinished bytes of one stream. Counts its copies in a bound; `drop` gives them back.

    `encoding` is the stream's; a message may be as large as the limit, compressed and not.
    """

    __slots__ = ("_bound", "_encoding", "_limit_bytes", "held")

    def __init__(self, limit_bytes: int, bound: Bound, encoding: bytes = b"") -> None:
        self._limit_bytes = limit_bytes
        self._bound = bound
        self._encoding = encoding
        self.held = bytearray()

    def add(self, content: bytes) -> Refuse | None:
        """Append what came; the reason to refuse the call, if there is one."""
        if not self._bound.take(len(content)):
            return TOO_MANY_COPIES
        self.held += content
        return self.fault()

    def needed(self) -> int | None:
        """Bytes of the first message with its prefix, None while that is not known."""
        return PREFIX_BYTES + _PREFIX.unpack_from(self.held)[1] if len(self.held) >= PREFIX_BYTES else None

    def whole(self) -> bool:
        needed = self.needed()
        return needed is not None and len(self.held) >= needed

    def take_messages(self) -> Iterator[bytes]:
        """Take the whole messages out, one by one, with their prefixes. Stops before one whose prefix is at fault."""
        while (needed := self.needed()) is not None and len(self.held) >= needed and self.fault() is None:
            framed = bytes(self.held[:needed])
            del self.held[:needed]
            self._bound.give_back(needed)
            yield framed

    def fault(self) -> Refuse | None:
        return fault_of_prefix(bytes(self.held[:PREFIX_BYTES]), self._limit_bytes, self._encoding)

    def said(self, framed: bytes) -> bytes | Refuse:
        """What a whole message says, without its prefix, or why it cannot be read."""
        message = framed[PREFIX_BYTES:]
        return message if framed[0] == _PLAIN else decompressed(message, self._limit_bytes)

    def drop(self) -> bytes:
        """Give up what is held, and return it."""
        rest = bytes(self.held)
        self._bound.give_back(len(rest))
        self.held.clear()
        return rest

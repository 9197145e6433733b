"""Request heads: what the relay knows of a call before its first message.

Rule: the cache by block bytes holds only while the dynamic table does not change, for the same bytes mean something
else afterwards. A block that changes the table is never kept.
"""

import re
from base64 import b64decode
from collections.abc import Callable
from typing import Final

from .calls import Kind, Metadata
from .header_blocks import Field, HeaderDecoder
from .streams import Phase

# One connection's calls differ in few ways; a block beyond this number is decoded again.
_CACHED_HEADS: Final = 256
_LONGEST_CACHED_BLOCK_BYTES: Final = 1_024  # one with a token; more of them than that are no saving worth the memory
_LONGEST_TIMEOUT_DIGITS: Final = 8
# gRPC libraries count in nanoseconds, and a time beyond their 64 bits would lie in the past; Go clients send such.
_LONGEST_TIMEOUT_SECONDS: Final = 10.0 * 365 * 24 * 3600
_UNIT_SECONDS: Final = {
    ord("H"): 3600.0,
    ord("M"): 60.0,
    ord("S"): 1.0,
    ord("m"): 1e-3,
    ord("u"): 1e-6,
    ord("n"): 1e-9,
}
_PHASE_OF: Final = {
    Kind.FORWARD: Phase.PASS,
    Kind.UNARY: Phase.FIRST_MESSAGE,
    Kind.STREAM: Phase.EACH_MESSAGE,
    Kind.REFUSE: Phase.PASS,
}
_NOT_METADATA: Final = frozenset((b"te", b"content-type", b"user-agent"))


# What gRPC lets through (its HTTP/2 mapping): anything else would be refused by the library that makes the call.
_NAME: Final = re.compile(rb"[0-9a-z_.-]+")
_TEXT: Final = re.compile(rb"[ -~]*")


class BadMetadataError(Exception):
    """A head that cannot be turned into a HandedOverCall; the text says which field."""


class RequestHead:
    """One request's path, kind, first phase, and fields, which only become metadata when the call is handed over."""

    __slots__ = ("compressed", "fields", "kind", "path", "phase")

    def __init__(self, fields: list[Field], kind_of: Callable[[bytes], Kind]) -> None:
        paths = [value for name, value in fields if name == b":path"]
        known = len(paths) == 1
        self.fields = fields
        self.kind = kind_of(paths[0]) if known else Kind.REFUSE
        self.phase = _PHASE_OF[self.kind]
        self.path = paths[0] if self.kind is not Kind.REFUSE else b""
        self.compressed = any(name == b"grpc-encoding" and value != b"identity" for name, value in fields)

    def metadata(self) -> Metadata:
        """The client's own metadata. Raises BadMetadataError."""
        return tuple(pair for name, value in self.fields if _is_metadata(name) for pair in _decoded(name, value))

    def timeout_seconds(self) -> float | None:
        """The deadline the client asked for, from now. Raises BadMetadataError."""
        for name, value in self.fields:
            if name == b"grpc-timeout":
                return _parsed_timeout(value)
        return None


def _is_metadata(name: bytes) -> bool:
    return not name.startswith((b":", b"grpc-")) and name not in _NOT_METADATA


def _decoded(name: bytes, value: bytes) -> list[tuple[str, str | bytes]]:
    is_binary = name.endswith(b"-bin")
    if not _NAME.fullmatch(name) or not (is_binary or _TEXT.fullmatch(value)):
        raise BadMetadataError(f"malformed metadata {name!r}")
    key = name.decode()
    if not is_binary:
        return [(key, value.decode())]
    try:
        return [(key, _from_base64(part.strip())) for part in value.split(b",")]
    except ValueError:
        raise BadMetadataError(f"malformed metadata {name!r}") from None


def _from_base64(text: bytes) -> bytes:
    text = text.rstrip(b"=")
    return b64decode(text + b"=" * (-len(text) % 4), validate=True)


def _parsed_timeout(value: bytes) -> float:
    digits = value[:-1]
    if not (digits.isdigit() and len(digits) <= _LONGEST_TIMEOUT_DIGITS and value[-1] in _UNIT_SECONDS):
        raise BadMetadataError("malformed grpc-timeout")
    return min(int(digits) * _UNIT_SECONDS[value[-1]], _LONGEST_TIMEOUT_SECONDS)


class RequestHeads:
    """Turns the header blocks of one connection, in order, into heads."""

    __slots__ = ("_heads", "_kind_of", "decoder")

    def __init__(self, kind_of: Callable[[bytes], Kind], header_list_bytes: int) -> None:
        self._kind_of = kind_of
        self.decoder = HeaderDecoder(header_list_bytes)
        self._heads: dict[bytes, RequestHead] = {}

    def head(self, block: bytes) -> RequestHead:
        """The head in `block`. Faults as HeaderDecoder does."""
        return self._heads.get(block) or self._decoded(block)

    def _decoded(self, block: bytes) -> RequestHead:
        changes = self.decoder.changes
        head = RequestHead(self.decoder.decode(block), self._kind_of)
        if self.decoder.changes != changes:
            self._heads.clear()
        elif len(self._heads) < _CACHED_HEADS and len(block) <= _LONGEST_CACHED_BLOCK_BYTES:
            self._heads[block] = head
        return head

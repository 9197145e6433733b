"""Request heads: what the relay knows of a call before its first message.

Rule: the cache by block bytes holds only while the dynamic table does not change, for the same bytes mean something
else afterwards. A block that changes the table is never kept.
"""

import re
from base64 import b64decode
from collections.abc import Callable
from typing import Final

from .calls import Kind, Metadata
from .header_blocks import Field, HeaderDecoder, KnownFields, size_of
from .streams import Phase

# One connection's calls differ in few ways; beyond this number all are decoded again.
_CACHED_BLOCKS: Final = 16
_LONGEST_CACHED_BLOCK_BYTES: Final = 1_024  # one with a token; more of them than that are no saving worth the memory
_SHARED_HEADS: Final = 1_024
SMALL_HEAD_BYTES: Final = 1_024
"""What is above it is counted for as long as its stream is open; smaller ones are bounded by the number of streams."""
_TIMEOUT: Final = b"grpc-timeout"
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
    """One request's path, kind, first phase, and fields, which only become metadata when the call is handed over.

    `fields` are without the deadline, which is `timeout`, as the client wrote it: it is what calls differ in most.
    """

    __slots__ = ("compressed", "counted_bytes", "fields", "is_usual", "kind", "path", "phase", "timeout")

    def __init__(
        self,
        fields: tuple[Field, ...],
        kind: Kind,
        path: bytes,
        *,
        compressed: bool,
        counted_bytes: int,
        timeout: bytes | None = None,
    ) -> None:
        self.fields = fields
        self.kind = kind
        self.path = path
        self.phase = _PHASE_OF[kind]
        self.compressed = compressed
        self.counted_bytes = counted_bytes
        self.timeout = timeout
        # Nothing about it refuses the call or has to be counted.
        self.is_usual = not counted_bytes and (kind is Kind.FORWARD or (kind is Kind.UNARY and not compressed))

    @classmethod
    def of(cls, fields: tuple[Field, ...], kind_of: Callable[[bytes], Kind]) -> "RequestHead":
        """The head with these fields. It is refused where it has no path, or two."""
        paths = [value for name, value in fields if name == b":path"]
        kind = kind_of(paths[0]) if len(paths) == 1 else Kind.REFUSE
        path = paths[0] if kind is not Kind.REFUSE else b""
        compressed = any(name == b"grpc-encoding" and value != b"identity" for name, value in fields)
        size_bytes = sum(size_of(field) for field in fields)
        counted_bytes = size_bytes if size_bytes > SMALL_HEAD_BYTES else 0
        return cls(fields, kind, path, compressed=compressed, counted_bytes=counted_bytes)

    def with_timeout(self, timeout: bytes) -> "RequestHead":
        """The same head with a deadline."""
        return RequestHead(
            self.fields,
            self.kind,
            self.path,
            compressed=self.compressed,
            counted_bytes=self.counted_bytes,
            timeout=timeout,
        )

    def without_fields(self) -> "RequestHead":
        """What is left to remember of a call that is not going to be made."""
        return RequestHead((), self.kind, self.path, compressed=self.compressed, counted_bytes=0)

    def asked_path(self) -> bytes:
        """The path that the client gave, known or not; b"" where it gave none, or several."""
        paths = [value for name, value in self.fields if name == b":path"]
        return paths[0] if len(paths) == 1 else b""

    @property
    def may_be_shared(self) -> bool:
        """Whether it is short and holds nothing that is a client's own."""
        return not self.counted_bytes and not any(_is_metadata(name) for name, _ in self.fields)

    def metadata(self) -> Metadata:
        """The client's own metadata. Raises BadMetadataError."""
        return tuple(pair for name, value in self.fields if _is_metadata(name) for pair in _decoded(name, value))

    def timeout_seconds(self) -> float | None:
        """The deadline the client asked for, from now. Raises BadMetadataError."""
        return None if self.timeout is None else _parsed_timeout(self.timeout)


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


class KnownHeads:
    """The heads that came on any connection: thousands of clients make the same few calls."""

    __slots__ = ("_heads", "_kind_of", "fields")

    def __init__(self, kind_of: Callable[[bytes], Kind]) -> None:
        self._kind_of = kind_of
        self._heads: dict[tuple[Field, ...], RequestHead] = {}
        self.fields = KnownFields()

    def head(self, fields: list[Field]) -> RequestHead:
        """The head that has these fields."""
        lasting = tuple([field for field in fields if field[0] != _TIMEOUT])
        head = self._heads.get(lasting) or self._made(lasting)
        if len(lasting) == len(fields):
            return head
        return head.with_timeout(next(value for name, value in fields if name == _TIMEOUT))

    def _made(self, fields: tuple[Field, ...]) -> RequestHead:
        head = RequestHead.of(fields, self._kind_of)
        if head.may_be_shared:
            if len(self._heads) >= _SHARED_HEADS:
                self._heads.clear()
            self._heads[fields] = head
        return head


class RequestHeads:
    """Turns the header blocks of one connection, in order, into heads."""

    __slots__ = ("_heads", "_known", "decoder")

    def __init__(self, known: KnownHeads, header_list_bytes: int) -> None:
        self._known = known
        self.decoder = HeaderDecoder(header_list_bytes, known.fields)
        self._heads: dict[bytes, RequestHead] = {}

    def head(self, block: bytes) -> RequestHead:
        """The head in `block`. Faults as HeaderDecoder does."""
        return self._heads.get(block) or self._decoded(block)

    def _decoded(self, block: bytes) -> RequestHead:
        decoder, heads = self.decoder, self._heads
        changes = decoder.changes
        head = self._known.head(decoder.decode(block))
        if decoder.changes != changes or len(heads) >= _CACHED_BLOCKS:
            heads.clear()
        if decoder.changes == changes and len(block) <= _LONGEST_CACHED_BLOCK_BYTES:
            heads[block] = head
        return head

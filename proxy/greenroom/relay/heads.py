"""Request heads: what the relay knows of a call before its first message.

Rule: the cache by block bytes holds only while the dynamic table does not change, for the same bytes mean something
else afterwards. A block that changes the table is never kept.
"""

import re
from base64 import b64decode
from collections.abc import Callable
from typing import Final

from greenroom.http2.header_blocks import Field, HeaderDecoder, KnownFields, size_of

from .calls import Kind, Metadata
from .streams import Phase

# One connection's calls differ in few ways.
_CACHED_BLOCKS: Final = 16
_LONGEST_CACHED_BLOCK_BYTES: Final = 1_024  # one with a token; more of them than that are no saving worth the memory
_SHARED_HEADS: Final = 1_024
SMALL_HEAD_BYTES: Final = 1_024
"""What is above it is counted for as long as its stream is open; smaller ones are bounded by the number of streams."""
_TIMEOUT: Final = b"grpc-timeout"
# As etcd 3.4 reads it: with a sign, if need be. Newer ones refuse that, before the call gets as far as here.
_COUNT: Final = re.compile(rb"[+-]?[0-9]+")
_LONGEST_COUNT_CHARACTERS: Final = 8
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
# What thousands of clients say alike. Anything else may be a client's own, or another one in each call, as tracing is.
_SAID_ALIKE: Final = frozenset(
    (
        b":method",
        b":scheme",
        b":path",
        b":authority",
        b"te",
        b"content-type",
        b"user-agent",
        b"accept-encoding",
        b"grpc-accept-encoding",
        b"grpc-encoding",
    )
)
_IDENTITY: Final = b"identity"

# What gRPC lets through (its HTTP/2 mapping): the library that makes the call refuses anything else.
_NAME: Final = re.compile(rb"[0-9a-z_.-]+")
_TEXT: Final = re.compile(rb"[ -~]*")


class BadTimeoutError(Exception):
    """A `grpc-timeout` that is none."""


class RequestHead:
    """One request's path, kind, first phase, and fields, which only become metadata when the call is handed over.

    `fields` are without the deadline, which is `timeout`, as the client wrote it: it is what calls differ in most.
    `encoding` is how messages may be compressed, b"" where they are not.
    """

    __slots__ = ("counted_bytes", "encoding", "fields", "is_usual", "kind", "path", "phase", "timeout")

    def __init__(
        self,
        fields: tuple[Field, ...],
        kind: Kind,
        path: bytes,
        *,
        encoding: bytes,
        counted_bytes: int,
        timeout: bytes | None = None,
    ) -> None:
        self.fields = fields
        self.kind = kind
        self.path = path
        self.phase = _PHASE_OF[kind]
        self.encoding = encoding
        self.counted_bytes = counted_bytes
        self.timeout = timeout
        # Nothing about it refuses the call or has to be counted.
        self.is_usual = not counted_bytes and (kind is Kind.FORWARD or (kind is Kind.UNARY and not encoding))

    @classmethod
    def of(cls, fields: tuple[Field, ...], kind_of: Callable[[bytes], Kind]) -> "RequestHead":
        """The head with these fields. It is refused where it has no path, or two."""
        paths = [value for name, value in fields if name == b":path"]
        kind = kind_of(paths[0]) if len(paths) == 1 else Kind.REFUSE
        path = paths[0] if kind is not Kind.REFUSE else b""
        encodings = [value for name, value in fields if name == b"grpc-encoding"]
        encoding = b"" if not encodings or encodings[-1] == _IDENTITY else encodings[-1]
        size_bytes = sum(size_of(field) for field in fields)
        counted_bytes = size_bytes if size_bytes > SMALL_HEAD_BYTES else 0
        return cls(fields, kind, path, encoding=encoding, counted_bytes=counted_bytes)

    def with_timeout(self, timeout: bytes) -> "RequestHead":
        """The same head with a deadline."""
        return RequestHead(
            self.fields,
            self.kind,
            self.path,
            encoding=self.encoding,
            counted_bytes=self.counted_bytes,
            timeout=timeout,
        )

    def without_fields(self) -> "RequestHead":
        """What is left to remember of a call that is not going to be made."""
        return RequestHead((), self.kind, self.path, encoding=self.encoding, counted_bytes=0)

    def asked_path(self) -> bytes:
        """The path that the client gave, known or not; b"" where it gave none, or several."""
        paths = [value for name, value in self.fields if name == b":path"]
        return paths[0] if len(paths) == 1 else b""

    @property
    def may_be_shared(self) -> bool:
        """Whether it is short and holds only what clients say alike."""
        return not self.counted_bytes and all(name in _SAID_ALIKE for name, _ in self.fields)

    def metadata(self) -> Metadata:
        """The client's own metadata, but for what gRPC does not carry: etcd takes no notice of that either."""
        return tuple(pair for name, value in self.fields if _is_metadata(name) for pair in _decoded(name, value))

    def timeout_seconds(self) -> float | None:
        """The deadline the client asked for, from now. Raises BadTimeoutError."""
        return None if self.timeout is None else _parsed_timeout(self.timeout)


def _is_metadata(name: bytes) -> bool:
    return not name.startswith((b":", b"grpc-")) and name not in _NOT_METADATA


def _decoded(name: bytes, value: bytes) -> list[tuple[str, str | bytes]]:
    is_binary = name.endswith(b"-bin")
    if not _NAME.fullmatch(name) or not (is_binary or _TEXT.fullmatch(value)):
        return []
    key = name.decode()
    if not is_binary:
        return [(key, value.decode())]
    try:
        return [(key, _from_base64(part.strip())) for part in value.split(b",")]
    except ValueError:
        return []


def _from_base64(text: bytes) -> bytes:
    text = text.rstrip(b"=")
    return b64decode(text + b"=" * (-len(text) % 4), validate=True)


def _parsed_timeout(value: bytes) -> float:
    count = value[:-1]
    if not _COUNT.fullmatch(count) or len(count) > _LONGEST_COUNT_CHARACTERS or value[-1] not in _UNIT_SECONDS:
        raise BadTimeoutError
    return min(int(count) * _UNIT_SECONDS[value[-1]], _LONGEST_TIMEOUT_SECONDS)


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
                del self._heads[next(iter(self._heads))]  # the oldest
            self._heads[fields] = head
        return head


class RequestHeads:
    """Turns the header blocks of one connection, in order, into heads.

    A block is remembered when it comes again: most of those with a deadline or with tracing never do.
    """

    __slots__ = ("_heads", "_known", "_seen", "decoder")

    def __init__(self, known: KnownHeads, header_list_bytes: int) -> None:
        self._known = known
        self.decoder = HeaderDecoder(header_list_bytes, known.fields)
        self._heads: dict[bytes, RequestHead] = {}
        self._seen: tuple[int, ...] = ()  # hashes of the last blocks that are not among them

    def head(self, block: bytes) -> RequestHead:
        """The head in `block`. Faults as HeaderDecoder does."""
        return self._heads.get(block) or self._decoded(block)

    def _decoded(self, block: bytes) -> RequestHead:
        decoder = self.decoder
        changes = decoder.changes
        head = self._known.head(decoder.decode(block))
        if decoder.changes != changes:
            self._heads.clear()
            self._seen = ()
        elif len(block) <= _LONGEST_CACHED_BLOCK_BYTES:
            self._remember(block, head)
        return head

    def _remember(self, block: bytes, head: RequestHead) -> None:
        mark = hash(block)
        if mark not in self._seen:
            self._seen = (mark, *self._seen[: _CACHED_BLOCKS - 1])
            return
        if len(self._heads) >= _CACHED_BLOCKS:
            del self._heads[next(iter(self._heads))]  # the oldest
        self._heads[block] = head

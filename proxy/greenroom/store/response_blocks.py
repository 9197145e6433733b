"""The header blocks of answers to the proxy's own requests, and what a gRPC client makes of them.

The rule: every block of the connection is decoded, also those of calls that were given up, for they share one table.
The same bytes mean the same only while that table does not change, so what is remembered is forgotten when it does.
"""

from base64 import b64decode
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from greenroom.http2.header_blocks import Field, HeaderDecoder
from greenroom.store.call_errors import Trailers

LARGEST_HEAD_BYTES: Final = 256 * 1024
"""Of one answer's header fields, as RFC 7541 counts. etcd's texts have some hundred bytes."""
_REMEMBERED_BLOCKS: Final = 64
_NOT_METADATA: Final = frozenset((b"content-type", b"grpc-status", b"grpc-message"))
_UNKNOWN: Final = 2


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """A block of an answer: its head, its trailers, or both in one. `http_status` is b"" in mere trailers."""

    http_status: bytes
    is_grpc: bool
    status: int | None
    details: str
    trailers: Trailers


class ResponseBlocks:
    """Decodes for one connection."""

    def __init__(self) -> None:
        self._decoder = HeaderDecoder(LARGEST_HEAD_BYTES)
        self._heads: dict[bytes, ResponseHead] = {}

    def head(self, block: bytes) -> ResponseHead:
        """What a block says. Faults as HeaderDecoder does."""
        return self._heads.get(block) or self._decoded(block)

    def _decoded(self, block: bytes) -> ResponseHead:
        heads, changes = self._heads, self._decoder.changes
        head = head_of(self._decoder.decode(block))
        if self._decoder.changes != changes or len(heads) >= _REMEMBERED_BLOCKS:
            heads.clear()
        if self._decoder.changes == changes:
            heads[block] = head
        return head


def head_of(fields: list[Field]) -> ResponseHead:
    """The fields of one block, as far as a unary call has a use for them."""
    found = dict(fields)
    return ResponseHead(
        http_status=found.get(b":status", b""),
        is_grpc=found.get(b"content-type", b"").startswith(b"application/grpc"),
        status=_status(found.get(b"grpc-status")),
        details=unquote_to_bytes(found.get(b"grpc-message", b"")).decode("utf-8", "replace"),
        trailers=tuple(pair for name, value in fields if _is_metadata(name) for pair in _decoded(name, value)),
    )


def _status(text: bytes | None) -> int | None:
    if text is None:
        return None
    return int(text) if text.isdigit() else _UNKNOWN


def _is_metadata(name: bytes) -> bool:
    return not name.startswith(b":") and name not in _NOT_METADATA


def _decoded(name: bytes, value: bytes) -> list[tuple[str, str | bytes]]:
    """A field as gRPC gives it: several binary values may stand in one. What is no base64 is dropped, as gRPC does."""
    key = name.decode("latin-1")
    if not key.endswith("-bin"):
        return [(key, value.decode("latin-1"))]
    try:
        return [(key, b64decode(part + b"=" * (-len(part) % 4), validate=True)) for part in value.split(b",")]
    except ValueError:
        return []

"""Compressed messages: what their bytes mean, and which are refused, in the words of etcd's own library.

etcd takes gzip from 3.5 on, and nothing else. Rule: a message passes compressed, as it came, so only what every reader
of gzip reads alike is taken: one member, whole, its checksum right, and nothing after it.
"""

import zlib
from typing import Final

from .calls import Code, Refuse

GZIP: Final = b"gzip"
_GZIP_FORMAT: Final = 16 + zlib.MAX_WBITS
_MORE: Final = "data after the end of a gzip member"
_CUT_SHORT: Final = Refuse(Code.INTERNAL, "grpc: failed to read decompressed data: unexpected EOF")


def refused_encoding(encoding: bytes) -> Refuse | None:
    """Why calls with this `grpc-encoding` are not taken where they are looked into; None for gzip and for none."""
    if encoding in (b"", GZIP):
        return None
    name = encoding.decode("ascii", "replace")
    return Refuse(Code.UNIMPLEMENTED, f'grpc: Decompressor is not installed for grpc-encoding "{name}"')


def decompressed(content: bytes, limit_bytes: int) -> bytes | Refuse:
    """What a gzip message says, at most `limit_bytes`: a few bytes can say a great deal."""
    reader = zlib.decompressobj(_GZIP_FORMAT)
    try:
        message = reader.decompress(content, limit_bytes + 1)
    except zlib.error as error:
        return _failed(str(error))
    if len(message) > limit_bytes:
        return Refuse(
            Code.RESOURCE_EXHAUSTED, f"grpc: received message after decompression larger than max {limit_bytes}"
        )
    if not reader.eof:
        return _CUT_SHORT if content else _failed("EOF")
    return _failed(_MORE) if reader.unused_data else message


def _failed(why: str) -> Refuse:
    return Refuse(Code.INTERNAL, f"grpc: failed to decompress the message: {why}")

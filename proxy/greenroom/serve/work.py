"""What the inspector gives along with a call that is handed over, so that the handler need not parse it again.

In both, `path` is the method's as on the wire and `request` its parsed message: no unknown fields, no write to a
reserved key, its ranges clipped.
"""

from dataclasses import dataclass

from google.protobuf.message import Message


@dataclass(frozen=True, slots=True)
class GatedCall:
    """A call that touches gated keys, or whose answer must be changed."""

    path: bytes
    request: Message


@dataclass(frozen=True, slots=True)
class PlainCall:
    """A call with nothing gated in it, to be made upstream with our own serialisation of the request.

    The client's bytes could not go up: they are ambiguous, or clipping changed their length.
    """

    path: bytes
    request: Message

"""The streams that are open: what the relay remembers of each.

Rule: a stream is in the table for as long as the client may send or receive on it, and `phase` says what becomes of
the client's DATA. Frames on ids that are not in the table pass in no direction, so an id that was given up upstream
never needs to be remembered.
"""

from enum import StrEnum
from typing import TYPE_CHECKING

from .messages import MessageAssembly
from .settings import Announced
from .windows import StreamWindow

if TYPE_CHECKING:
    from .heads import RequestHead


class Phase(StrEnum):
    """What becomes of the client's DATA on a stream."""

    PASS = "pass"  # goes up as it is
    FIRST_MESSAGE = "first-message"  # UNARY: goes up but for the frame that completes the message
    DECIDED = "decided"  # UNARY, message forwarded: only an empty end may follow
    EACH_MESSAGE = "each-message"  # STREAM: goes up message by message
    ENDED_UPSTREAM = "ended-upstream"  # upstream has answered already: only the end goes up
    LOCAL = "local"  # answered here, reset upstream: nothing goes up


class Stream:
    """One open stream. `allowance`: WINDOW_UPDATEs of the client less DATA sent to it, without the initial size.

    `whole`: all that the client says on it is said, and went up in one piece, so nothing is held or counted for it.
    """

    __slots__ = (
        "allowance",
        "assembly",
        "client_ended",
        "head",
        "head_waits",
        "id",
        "opened",
        "phase",
        "responded",
        "up",
        "upstream_ended",
        "whole",
    )

    def __init__(
        self, stream_id: int, head: "RequestHead", phase: Phase, opened: float, *, whole: bool = False
    ) -> None:
        self.id = stream_id
        self.head = head
        self.phase = phase
        self.opened = opened  # seconds on the clock of `now`
        self.head_waits = False  # for upstream the stream is idle still, and takes no other frame
        self.whole = self.client_ended = whole
        self.upstream_ended = False
        self.responded = False  # response headers went to the client
        self.allowance = 0
        self.assembly: MessageAssembly | None = None
        self.up: StreamWindow | None = None  # upstream's window, where edits may change lengths

    def head_left(self) -> None:
        self.head_waits = False

    def room(self, client: Announced) -> int:
        """How much DATA the client takes on this stream now."""
        return self.allowance + client.initial_window

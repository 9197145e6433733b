"""Flow control that stays end to end although the relay adds bytes and takes others away (RFC 9113, section 5.2).

A *lane* is one direction of DATA: its sender, the relay, its receiver. `left` is what the receiver really still takes.
The sender does not know of bytes that the relay put in; they are the *debit*, and later window updates of the receiver
pay it off before the sender hears of them. So always: what the sender believes = left + debit - waiting.
Rule: the receiver's window is never overdrawn; DATA that its sender was right to send but that does not fit waits, and
behind it, in order, everything whose order against DATA matters: of its own stream if only the stream's window is shut,
of all streams if the connection's is.
"""

from collections import deque
from collections.abc import Callable

from greenroom.http2.frames import DEFAULT_WINDOW_BYTES, END_STREAM, LARGEST_WINDOW_BYTES, Error, Fault, pack_data

from .limits import Bound
from .settings import Announced


class Window:
    """A receiver's connection window. `left` is a plain number, for each DATA frame reads and spends it."""

    __slots__ = ("debit", "left")

    def __init__(self) -> None:
        self.left = DEFAULT_WINDOW_BYTES
        self.debit = 0

    @property
    def room(self) -> int:
        """Bytes the receiver takes now."""
        return self.left

    def inject(self, amount: int) -> None:
        """The relay will send `amount` that the sender does not know of."""
        self.debit += amount

    def swallow(self, amount: int) -> int:
        """The relay keeps `amount` from the receiver; what the sender is to be credited for it."""
        paid = min(amount, self.debit)
        self.debit -= paid
        return amount - paid

    def open(self, increment: int) -> int:
        """The receiver takes more; what of it the sender is to hear. Faults if the window gets too large."""
        if self.room + increment > LARGEST_WINDOW_BYTES:
            raise Fault(Error.FLOW_CONTROL_ERROR, "window above its largest size")
        self.left += increment
        return self.swallow(increment)


class StreamWindow(Window):
    """A receiver's window of one stream: its initial size may change under way, and makes `room` negative then."""

    __slots__ = ("_initial",)

    def __init__(self, initial: Announced) -> None:
        super().__init__()
        self._initial = initial
        self.left = 0

    @property
    def room(self) -> int:
        return self.left + self._initial.initial_window


class _Waiting:
    """DATA content of one stream, or (stream id 0) other frames, with what is to happen when they have left."""

    __slots__ = ("content", "flags", "stream_id", "then", "window")

    def __init__(
        self,
        content: bytes,
        stream_id: int = 0,
        flags: int = 0,
        window: StreamWindow | None = None,
        then: Callable[[], None] | None = None,
    ) -> None:
        self.content = content
        self.stream_id = stream_id
        self.flags = flags
        self.window = window
        self.then = then


class Lane(Window):
    """One direction: the receiver's connection window and what waits for it.

    `waiting`: its first item is DATA that the connection window has no room for, and all that follows keeps its order.
    It is None as long as nothing waits, which is nearly always, on thousands of connections.
    `stalled`: DATA by stream whose own window has no room; only the same stream's DATA waits behind it.
    """

    __slots__ = ("_bound", "out", "stalled", "waiting")

    def __init__(self, out: list[bytes], waiting_bytes: int) -> None:
        super().__init__()
        self.out = out
        self.waiting: deque[_Waiting] | None = None
        self.stalled: dict[int, deque[_Waiting]] = {}
        self._bound = Bound(waiting_bytes)

    @property
    def holds(self) -> bool:
        """Whether anything has not left."""
        return bool(self.waiting or self.stalled)

    def send(self, frame: bytes, then: Callable[[], None] | None = None) -> None:
        """Whole frames that are not DATA; `then` is called when they have left."""
        if self.waiting:
            self._count(frame)
            self.waiting.append(_Waiting(frame, then=then))
            return
        self.out.append(frame)
        if then is not None:
            then()

    def send_data(self, stream_id: int, content: bytes, flags: int, window: StreamWindow | None = None) -> None:
        """DATA content of any length, as far as the windows allow now, the rest later. `flags`: END_STREAM or 0."""
        item = _Waiting(content, stream_id, flags, window)
        if not self.waiting and stream_id not in self.stalled and self._leave(item):
            return
        self._count(item.content)
        if self.waiting:
            self.waiting.append(item)
        else:
            self.waiting = deque((item,))
            self.drain()  # where only its stream is shut, it must not hold up the others

    def drain(self) -> None:
        """Let out what waits for the connection window and fits now."""
        while self.waiting:
            item = self.waiting[0]
            if item.stream_id in self.stalled:
                self._stall(self.waiting.popleft())
            elif self._let_out(item):
                self.waiting.popleft()
                if item.then is not None:
                    item.then()
            elif self.left > 0:
                self._stall(self.waiting.popleft())
            else:
                return
        self.waiting = None

    def resume(self, stream_id: int) -> None:
        """A stream's window opened: what it stalled is first in line again, before what came later of the stream."""
        resumed = self.stalled.pop(stream_id, None)
        if resumed:
            self.waiting = resumed + (self.waiting or deque())

    def resume_all(self) -> None:
        for stream_id in list(self.stalled):
            self.resume(stream_id)

    def purge(self, stream_id: int) -> int | None:
        """Forget the waiting DATA of a stream; returns its bytes, which are swallowed then, or None without any."""
        waiting = self.waiting or ()
        dropped = [item for item in waiting if item.stream_id == stream_id]
        if dropped:
            self.waiting = deque(item for item in waiting if item.stream_id != stream_id) or None
        dropped += self.stalled.pop(stream_id, ())
        if not dropped:
            return None
        amount = sum(len(item.content) for item in dropped)
        self._bound.give_back(amount)
        return amount

    def _stall(self, item: _Waiting) -> None:
        self.stalled.setdefault(item.stream_id, deque()).append(item)

    def _count(self, content: bytes) -> None:
        if not self._bound.take(len(content)):
            raise Fault(Error.ENHANCE_YOUR_CALM, "too much waits for the receiver's window")

    def _let_out(self, item: _Waiting) -> bool:
        """`_leave` for one that was counted."""
        before = len(item.content)
        gone = self._leave(item)
        self._bound.give_back(before if gone else before - len(item.content))
        return gone

    def _leave(self, item: _Waiting) -> bool:
        """Write `item`, or as much of it as fits; True if nothing of it is left."""
        if not item.stream_id:
            self.out.append(item.content)
            return True
        size = len(item.content)
        room = self.left if item.window is None else min(self.left, item.window.room)
        if size > max(room, 0):
            if room > 0:
                self._write(item, item.content[:room], 0)
                item.content = item.content[room:]
            return False
        self._write(item, item.content, item.flags & END_STREAM)
        return True

    def _write(self, item: _Waiting, content: bytes, flags: int) -> None:
        self.out += pack_data(item.stream_id, content, flags)
        self.left -= len(content)
        assert self.left >= 0
        if item.window is not None:
            item.window.left -= len(content)

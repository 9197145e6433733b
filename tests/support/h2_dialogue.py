"""A whole dialogue through a relay core with the `h2` library as client and as upstream, without I/O.

The rule: both peers are strict and independent of the relay's code; bytes travel in random pieces, and the order in
which the four actors (client, upstream, wire, handlers) move is random too, from one seed.
"""

import random
from collections import deque
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.events
import h2.settings

from greenroom.relay.calls import Answer
from greenroom.relay.core import RelayCore
from greenroom.relay.dialogue import CancelHandler, Close, StartHandler
from greenroom.relay.limits import Limits
from greenroom.relay.messages import frame_message
from tests.support.h2_peers import STREAM, UNARY, ByContent, message_of

MOST_STEPS = 200_000


@dataclass
class Call:
    """What a client wants: the messages of one call, and whether it half-closes with the last one."""

    path: bytes
    messages: list[bytes]
    response_bytes: int
    cancelled: bool = False


@dataclass
class Heard:
    """What one peer heard on one stream."""

    path: bytes = b""
    content: bytearray = field(default_factory=bytearray)
    status: bytes | None = None
    ended: bool = False
    reset: int | None = None


def messages_in(content: bytes) -> list[bytes]:
    """The whole messages of a stream's content."""
    found = []
    while len(content) >= 5 and len(content) >= 5 + int.from_bytes(content[1:5], "big"):
        size = int.from_bytes(content[1:5], "big")
        found.append(bytes(content[5 : 5 + size]))
        content = content[5 + size :]
    return found


class Peer:
    """One `h2` connection that sends as its windows allow and reads slowly or fast."""

    def __init__(self, dice: random.Random, *, client: bool) -> None:
        self.dice = dice
        self.connection = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=client, header_encoding=None)
        )
        self.connection.initiate_connection()
        self.heard: dict[int, Heard] = {}
        self.outbox: deque[tuple[int, bytes, bool]] = deque()
        self.unread: list[tuple[int, int]] = []
        self.unacknowledged = 1

    def take_windows_of(self, size: int) -> None:
        """Announce another INITIAL_WINDOW_SIZE. h2 applies a second announcement at the first one's acknowledgement,
        so the one before has to be settled.
        """
        assert self.unacknowledged == 0
        self.unacknowledged = 1
        self.connection.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: size})

    def stream(self, stream_id: int) -> Heard:
        return self.heard.setdefault(stream_id, Heard())

    def receive(self, data: bytes) -> None:
        events = self.connection.receive_data(data)
        for event in events:  # h2 has taken the reset in already when it gives the events before it
            if isinstance(event, h2.events.StreamReset):
                assert event.stream_id is not None
                self.stream(event.stream_id).reset = int(event.error_code or 0)
        for event in events:
            self.on_event(event)

    def on_event(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.DataReceived(data=data, stream_id=stream_id, flow_controlled_length=length):
                assert data is not None
                assert stream_id is not None
                assert length is not None
                self.stream(stream_id).content += data
                self.unread.append((stream_id, length))
            case h2.events.StreamEnded(stream_id=stream_id):
                assert stream_id is not None
                self.stream(stream_id).ended = True
            case h2.events.SettingsAcknowledged():
                self.unacknowledged -= 1
            case h2.events.StreamReset(stream_id=stream_id):
                self.outbox = deque(item for item in self.outbox if item[0] != stream_id)
            case h2.events.ConnectionTerminated():
                raise AssertionError(event)

    def read(self) -> bool:
        """Give windows back for something received."""
        if not self.unread:
            return False
        stream_id, length = self.unread.pop(self.dice.randrange(len(self.unread)))
        if length:
            self.connection.acknowledge_received_data(length, stream_id)
        return True

    def send(self) -> bool:
        """Send a piece of what is next on some stream, whatever fits."""
        firsts = {stream_id: index for index, (stream_id, _, _) in reversed(list(enumerate(self.outbox)))}
        for stream_id, index in self.dice.sample(sorted(firsts.items()), len(firsts)):
            if self._send_piece(stream_id, index):
                return True
        return False

    def _send_piece(self, stream_id: int, index: int) -> bool:
        _, content, end = self.outbox[index]
        window = self.connection.local_flow_control_window(stream_id)
        room = min(window, self.connection.max_outbound_frame_size)
        if room <= 0 and content:
            return False
        padding = self.dice.choice((None, None, None, 0, 1, 30))
        if padding is not None:
            padding = padding if padding + 1 < room else None
            room -= 0 if padding is None else padding + 1
        size = min(room, len(content), self.dice.choice((1, 3, 5, 6, 50, 10**6)))
        last = size == len(content)
        self.connection.send_data(stream_id, content[:size], end_stream=end and last, pad_length=padding)
        if last:
            del self.outbox[index]
        else:
            self.outbox[index] = (stream_id, content[size:], end)
        return True


class Upstream(Peer):
    """Answers each message it hears as a small etcd would: `re:` and the message, as long as its client asked for."""

    def __init__(self, dice: random.Random, calls: dict[int, Call]) -> None:
        super().__init__(dice, client=False)
        self.calls = calls
        self.answered: dict[int, int] = {}

    def on_event(self, event: h2.events.Event) -> None:
        super().on_event(event)
        match event:
            case h2.events.RequestReceived(stream_id=stream_id, headers=headers):
                assert stream_id is not None
                assert headers is not None
                self.stream(stream_id).path = dict(headers)[b":path"]
            case h2.events.DataReceived(stream_id=stream_id) | h2.events.StreamEnded(stream_id=stream_id):
                assert stream_id is not None
                self._respond(stream_id)

    def _respond(self, stream_id: int) -> None:
        heard = self.stream(stream_id)
        if heard.reset is not None or self.answered.get(stream_id, 0) < 0:
            return
        messages = messages_in(bytes(heard.content))
        done = self.answered.setdefault(stream_id, 0)
        for message in messages[done:]:
            self._say(stream_id, message)
        self.answered[stream_id] = len(messages)
        over = heard.ended or (heard.path == UNARY and bool(messages))
        if over:
            self.answered[stream_id] = -1
            self.outbox.append((stream_id, b"trailers", True))

    def _say(self, stream_id: int, message: bytes) -> None:
        if self.answered[stream_id] == 0 and not self._opened(stream_id):
            self.connection.send_headers(stream_id, [(b":status", b"200"), (b"x-from", b"upstream")])
        size = self.calls[stream_id].response_bytes
        self.outbox.append((stream_id, frame_message((b"re:" + message).ljust(size, b".")), False))

    def _opened(self, stream_id: int) -> bool:
        return any(item[0] == stream_id for item in self.outbox)

    def _send_piece(self, stream_id: int, index: int) -> bool:
        if not self.outbox[index][2]:
            return super()._send_piece(stream_id, index)
        if self.connection.streams[stream_id].state_machine.headers_sent:
            self.connection.send_headers(stream_id, [(b"grpc-status", b"0")], end_stream=True)
        else:
            self.connection.send_headers(stream_id, [(b":status", b"200"), (b"grpc-status", b"0")], end_stream=True)
        del self.outbox[index]
        return True


class Client(Peer):
    """Makes the calls, some at once, each with its messages, and cancels those that are to be."""

    def __init__(self, dice: random.Random, calls: dict[int, Call]) -> None:
        super().__init__(dice, client=True)
        self.calls = calls
        self.todo = deque(sorted(calls))
        self.to_cancel = {stream_id for stream_id, call in calls.items() if call.cancelled}

    def on_event(self, event: h2.events.Event) -> None:
        super().on_event(event)
        match event:
            case (
                h2.events.ResponseReceived(stream_id=stream_id, headers=headers)
                | h2.events.TrailersReceived(stream_id=stream_id, headers=headers)
            ):
                assert stream_id is not None
                assert headers is not None
                status = dict(headers).get(b"grpc-status")
                if status is not None:
                    self.stream(stream_id).status = status

    def start(self) -> bool:
        """Open the next call."""
        if not self.todo:
            return False
        stream_id = self.todo.popleft()
        call = self.calls[stream_id]
        fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", call.path), (b":authority", b"x")]
        timeout = b"%dm" % (1_000_000 + stream_id % 7)
        self.connection.send_headers(stream_id, [*fields, (b"te", b"trailers"), (b"grpc-timeout", timeout)])
        content = b"".join(map(frame_message, call.messages))
        self.outbox.append((stream_id, content, self.dice.random() < 0.8))
        if not self.outbox[-1][2]:
            self.outbox.append((stream_id, b"", True))
        return True

    def cancel(self) -> bool:
        for stream_id in sorted(self.to_cancel):
            if stream_id not in self.todo and self.dice.random() < 0.1:
                self.to_cancel.discard(stream_id)
                heard = self.stream(stream_id)
                if heard.reset is None and not (heard.ended and not self._sends(stream_id)):
                    self.connection.reset_stream(stream_id, 8)
                self.outbox = deque(item for item in self.outbox if item[0] != stream_id)
                return True
        return False

    def _sends(self, stream_id: int) -> bool:
        return any(item[0] == stream_id for item in self.outbox)


class Dialogue:
    """Runs calls through a core until nothing moves. `run` returns the reason of a close, None if all is well."""

    def __init__(self, seed: int, calls: list[Call], client_window: int, upstream_window: int) -> None:
        self.dice = random.Random(seed)
        self.calls = {2 * number + 1: call for number, call in enumerate(calls)}
        self.client_window = client_window
        self.upstream_window = upstream_window
        self.piece_sizes = self.dice.choice(((1, 9, 10, 40), (40, 1_000), (9, 1_000, 10**6), (10**6,)))
        self.client = Client(self.dice, self.calls)
        self.upstream = Upstream(self.dice, self.calls)
        self.core = RelayCore(ByContent(), Limits(spare_resets=10**6), 0.0)
        self.wires: dict[str, bytearray] = {
            name: bytearray() for name in ("client", "core-up", "upstream", "core-down")
        }
        self.handlers: list[tuple[int, Answer]] = []
        self.handed_over: dict[int, bytes] = {}
        self.closed: str | None = None

    def run(self) -> str | None:
        self.greet()
        moves = [
            self.client.start,
            self.client.send,
            self.client.send,
            self.client.read,
            self.client.cancel,
            self.upstream.send,
            self.upstream.read,
            self.finish_handler,
            *[lambda name=name: self.carry(name) for name in self.wires],
            *[lambda name=name: self.carry(name) for name in self.wires],
        ]
        for _ in range(MOST_STEPS):
            if self.closed is not None:
                return self.closed
            if not any(move() for move in self.dice.sample(moves, len(moves))):
                if self.client.to_cancel:
                    continue
                return None
        raise AssertionError("the dialogue does not end")

    def greet(self) -> None:
        """Exchange settings. Smaller windows are settled before the first call: h2 does not get over negative ones."""
        self._carry_all()
        self.client.take_windows_of(self.client_window)
        self.upstream.take_windows_of(self.upstream_window)
        if min(self.client_window, self.upstream_window) < 65_535:
            self._carry_all()

    def _carry_all(self) -> None:
        while sum(self.carry(name) for name in self.wires):
            pass

    def finish_handler(self) -> bool:
        if not self.handlers:
            return False
        stream_id, answer = self.handlers.pop(self.dice.randrange(len(self.handlers)))
        self.core.answer(stream_id, answer, 0.0)
        return True

    def carry(self, name: str) -> bool:
        """Move a random piece of what one side wrote to whom it is for."""
        self._collect()
        wire = self.wires[name]
        if not wire:
            return False
        size = min(len(wire), self.dice.choice(self.piece_sizes))
        piece = bytes(wire[:size])
        del wire[:size]
        match name:
            case "client":
                self.core.feed_client(piece, 0.0)
            case "upstream":
                self.core.feed_upstream(piece, 0.0)
            case "core-up":
                self.upstream.receive(piece)
            case _:
                self.client.receive(piece)
        return True

    def _collect(self) -> None:
        self.wires["client"] += self.client.connection.data_to_send()
        self.wires["upstream"] += self.upstream.connection.data_to_send()
        self.wires["core-up"] += b"".join(self.core.to_upstream)
        self.core.to_upstream.clear()
        if self.core.client_ready:
            self.wires["core-down"] += b"".join(self.core.to_client)
            self.core.to_client.clear()
        for effect in self.core.effects:
            match effect:
                case StartHandler(stream_id, call):
                    size = self.calls[stream_id].response_bytes
                    message = message_of(call)
                    self.handed_over[stream_id] = message
                    self.handlers.append((stream_id, Answer((b"ours:" + message).ljust(size, b"."))))
                case CancelHandler(stream_id):
                    self.handlers = [item for item in self.handlers if item[0] != stream_id]
                case Close(reason):
                    self.closed = reason
        self.core.effects.clear()


__all__ = ["STREAM", "UNARY", "Call", "Dialogue", "messages_in"]

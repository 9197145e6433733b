"""Two runs of a recording compared, byte for byte.

The rule: cluster, member and raft term are renumbered by first appearance, in the bytes as they came. Nothing else is
left out: no revision, no order of fields, no written zero. Where something is held by design, what is expected is the
direct answer without it.
"""

from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf.message import Message

from greenroom.pb.etcd import rpc_pb2
from tests.support.replay import WATCH, Answer, Call, Played, Stream
from tests.support.wire import join, split, varint

HEADER = 1
"""The field that every answer has its header in."""
STORE_FIELDS = (1, 2, 4)
"""Of a header: cluster, member and raft term. The third is the revision."""
Hidden = Callable[[bytes], bool]
"""Whether a key is held, and so not shown to whoever asks for many."""


def assert_byte_equal(direct: Played, proxied: Played, hidden: Hidden = lambda key: False) -> None:
    assert direct.calls.keys() == proxied.calls.keys()
    assert direct.streams.keys() == proxied.streams.keys()
    names = Names(), Names()
    for number, call in direct.calls.items():
        ours = names[1].renumbered(proxied.calls[number].answer)
        expected = names[0].renumbered(_shown(call, hidden))
        assert ours == expected, f"line {number}: {call.method} {call.request}\ndirect: {expected!r}\nproxied: {ours!r}"
    for number, stream in direct.streams.items():
        theirs = [names[0].renumbered(answer) for answer in _shown_events(stream, hidden)]
        ours_too = [names[1].renumbered(answer) for answer in proxied.streams[number].answers]
        assert ours_too == theirs, f"stream {number}: {stream.method} {stream.requests}"


class Names:
    """The stores' own numbers, numbered by first appearance."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, bytes], bytes] = {}

    def renumbered(self, answer: Answer) -> Answer:
        if isinstance(answer, tuple):
            return answer
        return join(
            [
                (number, kind, self._header(value) if number == HEADER else value)
                for number, kind, value in split(answer)
            ]
        )

    def _header(self, header: bytes) -> bytes:
        return join([(number, kind, self._named(number, value)) for number, kind, value in split(header)])

    def _named(self, number: int, value: bytes) -> bytes:
        if number not in STORE_FIELDS:
            return value
        return self._numbers.setdefault((number, value), varint(len(self._numbers) + 1))


def _shown(call: Call, hidden: Hidden) -> Answer:
    """A direct answer without what is held. Who asks for just one key is its owner, and is told."""
    if (
        not isinstance(call.request, rpc_pb2.RangeRequest)
        or not call.request.range_end
        or isinstance(call.answer, tuple)
    ):
        return call.answer
    answer = rpc_pb2.RangeResponse.FromString(call.answer)
    kvs = [kv for kv in answer.kvs if not hidden(kv.key)]
    if len(kvs) == len(answer.kvs):
        return call.answer
    answer.count -= len(answer.kvs) - len(kvs)
    _replace(answer.kvs, kvs)
    return answer.SerializeToString()


def _shown_events(stream: Stream, hidden: Hidden) -> list[bytes]:
    if stream.method != WATCH:
        return stream.answers
    shown = []
    for raw in stream.answers:
        answer = rpc_pb2.WatchResponse.FromString(raw)
        events = [event for event in answer.events if not hidden(event.kv.key)]
        if len(events) == len(answer.events):
            shown.append(raw)
        elif events:
            _replace(answer.events, events)
            shown.append(answer.SerializeToString())
    return shown


def _replace(repeated: Any, parts: Sequence[Message]) -> None:
    del repeated[:]
    repeated.extend(parts)

"""A watch through a preview: one watch of etcd's over held and public keys at once, and what is shown of its events.

The rules:

* etcd gives a watch all events of one revision together, and says nothing of how two watches stand to each other. So
  one watch covers the client's range, the shadows that come before it, and whatever lies between, which is not shown.
  A release (shadow deleted, key put) is one event by that, a withdrawal too, and nothing is ever missing in between.
* What is shown of a revision depends on the events of that revision alone, so a watch can begin at any revision. Only
  a selector also needs to know whom it matched before; and of whom it matches from here on, or no longer, the held
  keys as they are at that revision, which whoever runs the watch reads (`unread`).
* Events keep etcd's revisions, and are in their order. What only a selector's change makes appear is put at the
  revision of the change, so that whoever resumes after the newest revision seen has missed nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from greenroom.core.keyspace import RECORDS, InstanceId, Key, held_key, holder, in_range, is_reserved
from greenroom.core.preview import NO_INSTANCES, View
from greenroom.core.ranges import clip_watch
from greenroom.pb.etcd import kv_pb2, rpc_pb2

Event = kv_pb2.Event
Shadows = Mapping[tuple[int, InstanceId], Sequence[kv_pb2.KeyValue]]
"""The shadows of an instance at a revision."""

_FILTERED = {rpc_pb2.WatchCreateRequest.NOPUT: Event.PUT, rpc_pb2.WatchCreateRequest.NODELETE: Event.DELETE}


@dataclass(frozen=True, slots=True)
class _Turn:
    """One revision: its events, and whom the selector matches before and after it."""

    revision: int
    events: Sequence[Event]
    before: frozenset[InstanceId]
    after: frozenset[InstanceId]
    gone: frozenset[InstanceId]

    @property
    def changed(self) -> Iterator[InstanceId]:
        """Who matches now and did not, or no longer does, and is still there."""
        yield from sorted((self.before ^ self.after) - self.gone)


@dataclass(slots=True)
class _Pair:
    """What happened to a held key and to its public self in one revision."""

    held: Event | None = None
    public: Event | None = None


class PreviewWatch:
    """One watch. `create` is the client's request, `matching` whom the selector matches before its first revision."""

    def __init__(
        self,
        create: rpc_pb2.WatchCreateRequest,
        view: View,
        matching: frozenset[InstanceId] = NO_INSTANCES,
        first_revision: int = 0,
    ) -> None:
        self._create, self._view, self._matching = clip_watch(create), view, matching
        self._first_revision = first_revision
        self._filtered = {_FILTERED[one] for one in create.filters}
        self._turns: list[_Turn] = []

    @property
    def is_plain(self) -> bool:
        """Whether it shows just what etcd itself would."""
        return not self._view.only and self._view.shadows(self._create.key, self._create.range_end) is None

    @property
    def needs_records(self) -> bool:
        """Whether it must be made with whom the selector matches."""
        return self._view.by_records and self._view.shadows(self._create.key, self._create.range_end) is not None

    @property
    def upstream(self) -> rpc_pb2.WatchCreateRequest:
        """What to ask of etcd."""
        if self.is_plain:
            return self._create
        shadows = self._view.shadows(self._create.key, self._create.range_end)
        asked = rpc_pb2.WatchCreateRequest()
        asked.CopyFrom(self._create)
        # Both halves of what happens are needed, and whole revisions.
        asked.ClearField("filters")
        asked.fragment = False
        asked.prev_kv = self._create.prev_kv or self._view.only
        if self._first_revision:
            asked.start_revision = self._first_revision
        if shadows is not None:
            asked.key, asked.range_end = shadows[0], self._create.range_end or self._create.key + b"\0"
        return asked

    def unread(self, response: rpc_pb2.WatchResponse) -> list[tuple[int, InstanceId]]:
        """What must be known to show this response: whose shadows at which revision. To be asked once a response."""
        self._turns = list(self._in_turns(response.events))
        return [(turn.revision, instance) for turn in self._turns for instance in turn.changed]

    def shown(self, response: rpc_pb2.WatchResponse, shadows: Shadows) -> rpc_pb2.WatchResponse | None:
        """The response as the client sees it, None where it sees nothing of it. What says no events passes as it is.

        etcd tells progress to a watch that has had no events for long, and ours has some that nobody sees: with those
        it is told to whoever asked for it.
        """
        if not response.events:
            return response
        events = [event for turn in self._turns for event in self._of_turn(turn, shadows)]
        if not events and not self._create.progress_notify:
            return None
        seen = rpc_pb2.WatchResponse()
        seen.CopyFrom(response)
        del seen.events[:]
        seen.events.extend(events)
        if not events:
            # The header can name a revision that has not been told yet, where etcd splits a long backlog.
            seen.header.revision = response.events[-1].kv.mod_revision
        return seen

    def _in_turns(self, events: Iterable[Event]) -> Iterator[_Turn]:
        for revision, group in groupby(events, key=lambda event: event.kv.mod_revision):
            together, before = list(group), self._matching
            gone = self._follow(together) if self._view.by_records else NO_INSTANCES
            yield _Turn(revision, together, before, self._matching, gone)

    def _follow(self, events: Iterable[Event]) -> frozenset[InstanceId]:
        """Takes in what records say at a revision; whose lease ended."""
        matching, gone = set(self._matching), set[InstanceId]()
        for event in events:
            if event.kv.key.startswith(RECORDS):
                instance = holder(event.kv.key)
                matching.discard(instance)
                if event.type == Event.DELETE:
                    gone.add(instance)
                elif self._view.matches(event.kv.value):
                    matching.add(instance)
        self._matching = frozenset(matching)
        return frozenset(gone)

    def _of_turn(self, turn: _Turn, shadows: Shadows) -> Iterator[Event]:
        if turn.revision < self._create.start_revision:
            return
        pairs = self._pairs(turn)
        for event in (*self._by_selector(turn, shadows, pairs), *self._by_events(turn, pairs)):
            if event.type not in self._filtered:
                if not self._create.prev_kv:
                    event.ClearField("prev_kv")
                yield event

    def _pairs(self, turn: _Turn) -> Mapping[Key, _Pair]:
        """Everything that happened to keys of the client's range, in the order of what puts them."""
        pairs: dict[Key, _Pair] = {}
        for event in turn.events:
            held = held_key(event.kv.key)
            key = Key(event.kv.key) if held is None else held
            if is_reserved(key) or not in_range(key, self._create.key, self._create.range_end):
                continue
            if held is None:
                pairs.setdefault(key, _Pair()).public = event
            elif self._view.shows_held(holder(event.kv.key), turn.before | turn.after):
                pairs.setdefault(key, _Pair()).held = event
        return pairs

    def _by_events(self, turn: _Turn, pairs: Mapping[Key, _Pair]) -> Iterator[Event]:
        for key, pair in pairs.items():
            if pair.held is None:
                assert pair.public is not None, "a pair is made for an event"
                yield from self._public(pair.public)
            else:
                yield from self._held(turn, key, pair.held, pair.public)

    def _held(self, turn: _Turn, key: Key, held: Event, public: Event | None) -> Iterator[Event]:
        """What is shown of a held key's event, with that of its public self of the same revision."""
        instance = holder(held.kv.key)
        was_shown = self._view.shows_held(instance, turn.before)
        if held.type == Event.PUT and self._view.shows_held(instance, turn.after):
            shown = _under(key, held)
        elif public is not None:
            shown = _under(key, public)
        elif was_shown and (held.type == Event.DELETE or held.kv.version > 1):  # It was there before.
            shown = _deleted(key, turn.revision)
        else:
            return
        previous = next((one.prev_kv for one in (held, public) if one is not None and one.HasField("prev_kv")), None)
        shown.ClearField("prev_kv")
        if previous is not None and (was_shown or previous.key == key):
            shown.prev_kv.CopyFrom(previous)
            shown.prev_kv.key = key
        yield shown

    def _public(self, event: Event) -> Iterator[Event]:
        """What is shown of a public key's event: by `only` it can begin and end to be shown."""
        if not self._view.only:
            yield event
            return
        is_known = event.HasField("prev_kv")
        was_shown = is_known and self._view.shows_public(event.prev_kv)
        if event.type == Event.DELETE:
            # Of what the key does not tell, and nothing remembers, a deletion too many harms nobody.
            if was_shown or (not is_known and self._view.is_its_own(event.kv.key) is not False):
                yield event
        elif self._view.shows_public(event.kv):
            if not was_shown:
                event.ClearField("prev_kv")
            yield event
        elif was_shown:
            yield _deleted(Key(event.kv.key), event.kv.mod_revision, event.prev_kv)

    def _by_selector(self, turn: _Turn, shadows: Shadows, pairs: Mapping[Key, _Pair]) -> Iterator[Event]:
        """What appears or disappears because another record makes the selector match or not."""
        for instance in turn.changed:
            for kv in shadows[turn.revision, instance]:
                key = held_key(kv.key)
                if key is None or key in pairs or not in_range(key, self._create.key, self._create.range_end):
                    continue
                own = _named(key, kv)
                yield _put(own, turn.revision) if instance in turn.after else _deleted(key, turn.revision, own)


def _under(key: Key, event: Event) -> Event:
    """The event under a key's own name."""
    named = Event()
    named.CopyFrom(event)
    named.kv.key = key
    return named


def _named(key: Key, kv: kv_pb2.KeyValue) -> kv_pb2.KeyValue:
    named = kv_pb2.KeyValue()
    named.CopyFrom(kv)
    named.key = key
    return named


def _put(kv: kv_pb2.KeyValue, revision: int) -> Event:
    put = Event(type=Event.PUT, kv=kv)
    put.kv.mod_revision = revision
    return put


def _deleted(key: Key, revision: int, previous: kv_pb2.KeyValue | None = None) -> Event:
    kv = kv_pb2.KeyValue(key=key, mod_revision=revision)
    return Event(type=Event.DELETE, kv=kv, prev_kv=previous)

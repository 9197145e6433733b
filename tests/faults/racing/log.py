"""What etcd itself shows of a race: one watch on everything, public and reserved, sorted by instance.

The rule: only etcd's own events count here, not what anybody says of them.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from greenroom.pb.etcd import kv_pb2, rpc_pb2
from greenroom.store.upstream import Upstream, WatchStream
from tests.guarantees import Flight
from tests.support.story import Event

RESERVED = b"\x01greenroom/"
SHADOWS = RESERVED + b"held/"
RECORDS = RESERVED + b"instances/"
ROLLOUT_HOLDS = RESERVED + b"rollout-holds/"
OF_PROXIES = (RESERVED + b"proxies/", RESERVED + b"templates", RESERVED + b"budget")
CARDS = b"v1/mdc/"
INSTANCES = b"v1/instances/"


@dataclass(frozen=True, slots=True)
class Change:
    """One event on a key of an instance. `key` is the gated key's own name, held or public; `value` None: deleted."""

    revision: int
    where: str
    key: bytes
    value: bytes | None
    lease: int


@dataclass(slots=True)
class HoldTime:
    """A rollout hold from its creation to its lifting; `component` None stops everybody."""

    hold_id: str
    component: str | None
    created: int
    lifted: int | None = None

    def overlaps(self, first: int, last: int) -> bool:
        return self.created <= last and (self.lifted is None or self.lifted >= first)


@dataclass(slots=True)
class RaceLog:
    """Events so far; `revision` is that of the newest."""

    changes: dict[str, list[Change]] = field(default_factory=lambda: defaultdict(list))
    holds: list[HoldTime] = field(default_factory=list)
    revision: int = 0
    hold_count: int = 0
    _in_force: dict[str, HoldTime] = field(default_factory=dict)
    _arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def follow(self, upstream: Upstream) -> None:
        """Takes in everything from etcd's first revision on, until cancelled."""
        async with upstream.watch() as stream:
            create = rpc_pb2.WatchCreateRequest(key=b"\0", range_end=b"\0", start_revision=1)
            await stream.write(rpc_pb2.WatchRequest(create_request=create))
            await self._read(stream)

    async def _read(self, stream: WatchStream) -> None:
        while (answer := await stream.read()) is not None:
            assert not answer.canceled, f"the judge's watch was cancelled: {answer.cancel_reason}"
            async with self._arrived:
                for event in answer.events:
                    self.take(event)
                self._arrived.notify_all()

    async def wait(self, revision: int) -> None:
        """Returns when everything up to `revision`, which must be that of a write, is here."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: self.revision >= revision)

    async def wait_more(self) -> None:
        """Returns at the next event."""
        async with self._arrived:
            await self._arrived.wait()

    def forget(self, instance: str, before: int) -> None:
        """An instance that has been judged, and holds that were lifted before a revision."""
        self.changes.pop(instance, None)
        self.holds = [hold for hold in self.holds if hold.lifted is None or hold.lifted >= before]

    def take(self, event: kv_pb2.Event) -> None:
        """One event more, in etcd's order."""
        kv = event.kv
        self.revision = kv.mod_revision
        if kv.key.startswith(OF_PROXIES):
            return
        value = None if event.type == kv_pb2.Event.DELETE else kv.value
        if kv.key.startswith(ROLLOUT_HOLDS):
            self._take_hold(kv.key.removeprefix(ROLLOUT_HOLDS).decode(), value, kv.mod_revision)
            return
        where, instance, key = _sorted(kv.key)
        self.changes[instance].append(Change(kv.mod_revision, where, key, value, kv.lease))

    def _take_hold(self, hold_id: str, value: bytes | None, revision: int) -> None:
        if value is None:
            self._in_force.pop(hold_id).lifted = revision
            return
        if hold_id in self._in_force:
            return
        hold = HoldTime(hold_id, json.loads(value)["selector"]["component"], revision)
        self._in_force[hold_id] = hold
        self.holds.append(hold)
        self.hold_count += 1


def _sorted(key: bytes) -> tuple[str, str, bytes]:
    """Where a key lies, whose it is, and its own name."""
    if key.startswith(RECORDS):
        return "record", key.removeprefix(RECORDS).decode(), key
    if key.startswith(SHADOWS):
        instance, _, held = key.removeprefix(SHADOWS).partition(b"/")
        return "shadow", instance.decode(), held
    if key.startswith((CARDS, INSTANCES)):
        return "public", key.split(b"/")[5].decode(), key
    if key.startswith(b"other/"):
        return "other", key.removeprefix(b"other/").decode(), key
    raise AssertionError(f"a key that nobody should have written: {key!r}")


def public_events(changes: list[Change]) -> Iterator[Event]:
    """What a public watcher sees of one instance."""
    for change in changes:
        if change.where == "public":
            instance = change.key.split(b"/")[5].decode()
            yield Event(change.revision, instance, change.key, change.value)


def flights(instance: str, changes: list[Change]) -> Iterator[Flight]:
    """The releases of one instance, but for its being taken on as released, which no limit is about."""
    begun: tuple[int, datetime] | None = None
    state = ""
    for change in changes:
        if change.where != "record":
            continue
        before, record = state, json.loads(change.value) if change.value is not None else {"state": ""}
        state = record["state"]
        if begun and state != "RELEASED":
            yield Flight(instance, *begun, over=change.revision)
            begun = None
        if state == "RELEASED" and before not in ("", "RELEASED"):
            begun = change.revision, datetime.fromisoformat(record["released"])
    if begun:
        yield Flight(instance, *begun)


def records(changes: list[Change]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The record after each of its writes."""
    for change in changes:
        if change.where == "record" and change.value is not None:
            yield change.revision, json.loads(change.value)

"""A mirror and a follower that are fed by hand, for tests without etcd.

The rule: the parts are the real ones; only what etcd would have sent is made up. Nothing connects to anything.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from greenroom.core import record as records
from greenroom.core.claims import Claim
from greenroom.core.claims import encode as encode_claim
from greenroom.core.keyspace import InstanceId, Key, claim_key, record_key, shadow_key
from greenroom.core.record import Record
from greenroom.pb.etcd import kv_pb2
from greenroom.store.changes import Changes, Expired
from greenroom.store.follower import Follower
from greenroom.store.mirror import Mirror
from greenroom.store.mirrored import MirroredInstance
from greenroom.store.upstream import Upstream
from tests.support.control_side import GATED, EventLog, MovableClock
from tests.support.registering import card_key, card_value, held_record, now

ONE, TWO = InstanceId("abc1"), InstanceId("abc2")


def kv_of(key: bytes, value: bytes = b"", revision: int = 7) -> kv_pb2.KeyValue:
    return kv_pb2.KeyValue(key=key, value=value, mod_revision=revision)


def put_event(key: bytes, value: bytes = b"", revision: int = 8) -> kv_pb2.Event:
    return kv_pb2.Event(type=kv_pb2.Event.PUT, kv=kv_of(key, value, revision))


def delete_event(key: bytes, revision: int = 9) -> kv_pb2.Event:
    return kv_pb2.Event(type=kv_pb2.Event.DELETE, kv=kv_of(key, revision=revision))


def record_kv(instance: InstanceId, record: Record | None = None, revision: int = 7) -> kv_pb2.KeyValue:
    return kv_of(record_key(instance), records.encode(record or held_record(instance)), revision)


def shadow_kv(instance: InstanceId, key: Key | None = None, value: bytes | None = None) -> kv_pb2.KeyValue:
    place = shadow_key(instance, key if key is not None else card_key(instance))
    return kv_of(place, card_value() if value is None else value)


def claim_kv(instance: InstanceId, gate: str = "smoke", *, attempt: int = 1, revision: int = 7) -> kv_pb2.KeyValue:
    """A claim of runner-1's, for half a minute."""
    claimed = now()
    claim = Claim(runner="runner-1", attempt=attempt, claimed=claimed, expires=claimed + timedelta(seconds=30))
    return kv_of(claim_key(instance, gate), encode_claim(claim), revision)


def held(instance: InstanceId, record: Record | None = None) -> list[kv_pb2.KeyValue]:
    """Everything that the reserved area has of one held instance."""
    return [record_kv(instance, record), shadow_kv(instance)]


def expired(instance: InstanceId, record: Record | None = None) -> Expired:
    """A held instance whose lease ended."""
    last = record or held_record(instance)
    return Expired(MirroredInstance(instance, last, 7, frozenset({card_key(instance)}), None))


def unconnected() -> Upstream:
    """An upstream for parts that must be given one; gRPC connects at the first call. Needs a running loop."""
    return Upstream([("127.0.0.1", 1)])


def fed_follower(
    kvs: Sequence[kv_pb2.KeyValue] | None = None, *, clock: MovableClock | None = None, revision: int = 10
) -> Follower:
    """A follower that has read these keys; None: one that has read nothing yet."""
    mirror = Mirror(GATED)
    follower = Follower(unconnected(), mirror, GATED, clock=clock or MovableClock(), log=EventLog())
    if kvs is not None:
        follower.synced(mirror.replace(kvs), revision)
    return follower


async def wait_mirrored(follower: Follower, revision: int) -> None:
    """Returns once the mirror shows `revision`, which must be one of a write to the reserved area."""
    news = _News()
    with follower.told(news):
        while follower.revision < revision:
            await news.some.wait()
            news.some.clear()


class _News:
    """Hears of each event of etcd's, also of one that changes nothing that is shown."""

    def __init__(self) -> None:
        self.some = asyncio.Event()

    def add(self, _: Changes) -> None:
        self.some.set()

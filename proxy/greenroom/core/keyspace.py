"""The reserved bottom of the keyspace: what Greenroom stores, where, and how it stays out of everybody's sight.

A key is reserved by its first byte, 0x00 or 0x01. etcd sorts by bytes, so nothing comes before such a key but others
of its kind, and a range that must not show them simply starts later: it is *clipped*. Where it ends, how many it counts
and in which order are never touched.
"""

from typing import NewType

Key = NewType("Key", bytes)
InstanceId = NewType("InstanceId", str)
"""A lease id as etcd's users write it: lower-case hexadecimal without leading zeros."""

FIRST_CLIENT_KEY = b"\x02"
"""Clients' keys start here. A range that starts below starts here instead."""

ROOT = b"\x01greenroom/"
RECORDS = ROOT + b"instances/"
SHADOWS = ROOT + b"held/"
ROLLOUT_HOLDS = ROOT + b"rollout-holds/"
CLAIMS = ROOT + b"claims/"
BUDGET = Key(ROOT + b"budget")
TEMPLATES_DIGEST = Key(ROOT + b"templates")

LARGEST_LEASE = (1 << 63) - 1
"""etcd's lease ids are int64, and 0 means none."""


def instance_id(lease: int) -> InstanceId:
    """The name of the instance that registers under `lease` (1 .. 2**63-1)."""
    if not 0 < lease <= LARGEST_LEASE:
        raise ValueError(f"{lease} is no lease id")
    return InstanceId(f"{lease:x}")


def lease_of(instance: InstanceId) -> int:
    """The lease id of an instance; ValueError for text that no lease id is written as."""
    lease = int(instance, 16)
    if instance_id(lease) != instance:
        raise ValueError(f"{instance!r} is not a lease id in lower-case hexadecimal without leading zeros")
    return lease


def record_key(instance: InstanceId) -> Key:
    """Where the record of an instance lies."""
    return Key(RECORDS + instance.encode())


def shadow_prefix(instance: InstanceId) -> Key:
    """The start of all shadows of an instance; ids hold no slash, so no instance's prefix begins another's."""
    return Key(SHADOWS + instance.encode() + b"/")


def shadow_key(instance: InstanceId, key: Key) -> Key:
    """Where `key` of an instance lies while it is held."""
    return Key(shadow_prefix(instance) + key)


def held_key(shadow: bytes) -> Key | None:
    """The key that a shadow stands for; None for a key that is no shadow."""
    if not shadow.startswith(SHADOWS):
        return None
    _, slash, key = shadow[len(SHADOWS) :].partition(b"/")
    return Key(key) if slash else None


def holder(key: bytes) -> InstanceId:
    """The instance that a shadow or a record belongs to, by its key; of a key of another kind, some text or none."""
    prefix = SHADOWS if key.startswith(SHADOWS) else RECORDS
    return InstanceId(key[len(prefix) :].partition(b"/")[0].decode("utf-8", "replace"))


def rollout_hold_key(hold_id: str) -> Key:
    """Where a rollout hold lies."""
    return Key(ROLLOUT_HOLDS + hold_id.encode())


def claim_prefix(gate: str) -> Key:
    """The start of all claims of a gate; gates' names hold no slash, so no gate's prefix begins another's."""
    return Key(CLAIMS + gate.encode() + b"/")


def claim_key(instance: InstanceId, gate: str) -> Key:
    """Where the claim of one gate of an instance lies. By the gate first, since its claims are counted."""
    return Key(claim_prefix(gate) + instance.encode())


def claimed_gate(key: bytes) -> tuple[InstanceId, str] | None:
    """Whose gate, and which, a claim is about; None for a key that is no claim."""
    if not key.startswith(CLAIMS):
        return None
    gate, slash, instance = key[len(CLAIMS) :].decode("utf-8", "replace").partition("/")
    return (InstanceId(instance), gate) if slash else None


def prefix_end(prefix: bytes) -> bytes:
    """The `range_end` that makes a range of all keys beginning with `prefix`, as etcd's own clients compute it."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else b"\0"


def is_reserved(key: bytes) -> bool:
    """Whether a key lies in the reserved area. The empty key is no key."""
    return bool(key) and key < FIRST_CLIENT_KEY


def clip(key: bytes, range_end: bytes) -> bytes:
    """The start to use instead of `key`, of the same length, so that the range shows nothing reserved.

    An exact key (no `range_end`) is answered as absent. Of the reserved keys no proxy ever writes the one-byte ones
    nor those of 0x01 0xff..., so these are what a start is moved to; a range of one byte moves to the first client
    key itself. The empty key is returned as it is: etcd refuses it everywhere but on Watch.
    """
    if not is_reserved(key):
        return key
    if len(key) == 1:
        return FIRST_CLIENT_KEY if range_end else key
    return b"\x01" + b"\xff" * (len(key) - 1)


def in_range(key: bytes, start: bytes, range_end: bytes) -> bool:
    """Whether etcd's range [start, range_end) holds `key`: no end is the one key, an end of one zero byte is all."""
    if not range_end:
        return key == start
    return key >= start and (range_end == b"\0" or key < range_end)

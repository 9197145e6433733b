"""A fleet of three workers on a model of etcd, moved by the Txns of the protocol; and what a preview is to show of it.

The rule: what is to be shown is worked out from what was done, never by the product's own reading of keys and events.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from greenroom.core import record as records
from greenroom.core.keyspace import InstanceId, Key, record_key, shadow_key
from greenroom.core.record import GatedEntry, State
from greenroom.core.templates import KeyKind
from greenroom.pb.etcd import rpc_pb2
from tests.support.client import delete, put
from tests.support.model_etcd import Item, ModelEtcd
from tests.support.registering import held_record

LEASES = (0xA1, 0xA2, 0xA3)
FRONTEND_LEASE = 0xF1
"""Of a client of the preview, as the view is told; another one is of some frontend elsewhere."""
ELSEWHERE_LEASE = 0xF2
MODELS = ("tiny", "large")


@dataclass
class Member:
    """One worker: its listed keys with the model of each, which of them wait, and whether it is released."""

    lease: int
    state: State = State.HELD
    listed: dict[Key, str | None] = field(default_factory=dict)
    later: set[Key] = field(default_factory=set)
    is_known: bool = False

    @property
    def instance(self) -> InstanceId:
        return InstanceId(f"{self.lease:x}")

    def key(self, kind: str) -> Key:
        path = f"dynamo/c{self.lease & 1}/generate/{self.instance}"
        begin = b"v1/instances/" if kind == "instance" else b"v1/mdc/"
        return Key(begin + path.encode() + (b"/a" if kind == "lora" else b""))

    def matches(self, model: str) -> bool:
        """Whether a selector of this model is about it, as rollout holds' are: by its cards, else by what it has."""
        keys = [key for key in self.listed if key in self.later] or list(self.listed)
        cards = [self.listed[key] for key in keys if key.startswith(b"v1/mdc/")]
        return model in cards if cards else bool(keys)

    def record(self) -> bytes:
        entries = tuple(self._entry(key, model) for key, model in self.listed.items())
        return records.encode(held_record(self.instance).model_copy(update={"state": self.state, "cards": entries}))

    def _entry(self, key: Key, model: str | None) -> GatedEntry:
        kind = KeyKind.CARD if key.startswith(b"v1/mdc/") else KeyKind.INSTANCE
        later = ("smoke",) if key in self.later else ()
        names = {"namespace": "dynamo", "component": f"c{self.lease & 1}", "endpoint": "generate"}
        return GatedEntry(key=key.decode(), kind=kind, model=model, later_gates=later, **names)


@dataclass(frozen=True)
class Moment:
    """The store at one revision, and whom a selector of each model is about then."""

    store: ModelEtcd
    matched: Mapping[str, frozenset[InstanceId]]


class PreviewFleet:
    """Each method is one revision, or none where it cannot be. `holds_instances`: instance records wait too."""

    def __init__(self, *, holds_instances: bool) -> None:
        store = ModelEtcd()
        for lease in (*LEASES, FRONTEND_LEASE, ELSEWHERE_LEASE):
            store = store.grant(lease)
        self.store, self.holds_instances = store, holds_instances
        self.members = [Member(lease) for lease in LEASES]
        self.moments: dict[int, Moment] = {}
        self._serial = 0
        self._remember()

    def register(self, member: Member, kind: str, model: str) -> None:
        """A new gated key, held also where the worker is released; or a held card that becomes another model's."""
        key = member.key(kind)
        if kind == "instance" and not self.holds_instances:
            self._txn(put(key, self._value(None), member.lease))
            return
        if key in self.store.items or (kind == "instance" and self._at(member, key)):
            self.edit(member, kind)
            return
        if self._at(member, key) is None:
            member.listed.pop(key, None)
        member.listed[key] = model if kind != "instance" else None
        if member.state is State.RELEASED:
            member.later.add(key)
        self._txn(put(shadow_key(member.instance, key), self._value(model), member.lease), self._record(member))

    def edit(self, member: Member, kind: str) -> None:
        """Taints: the value alone, wherever it is."""
        key = member.key(kind)
        for place in (shadow_key(member.instance, key), key):
            if place in self.store.items:
                self._txn(put(place, self._value(member.listed.get(key)), member.lease))
                return

    def delete(self, member: Member, kind: str) -> None:
        for place in (shadow_key(member.instance, member.key(kind)), member.key(kind)):
            if place in self.store.items:
                self._txn(delete(place))
                return

    def release(self, member: Member) -> None:
        held = self._held(member)
        if held:
            member.state, member.later = State.RELEASED, set()
            puts = [put(key, self._at(member, key).value, member.lease) for key in member.listed if key in held]
            self._txn(*puts, *(delete(shadow_key(member.instance, key)) for key in held), self._record(member))

    def withdraw(self, member: Member) -> None:
        live = [key for key in member.listed if key in self.store.items]
        if member.state is State.RELEASED and live:
            member.state, member.later = State.WITHDRAWN, set()
            moved = [put(shadow_key(member.instance, key), self.store.items[key].value, member.lease) for key in live]
            self._txn(*moved, *(delete(key) for key in live), self._record(member))

    def drop(self, member: Member) -> None:
        held = self._held(member)
        if held:
            kept = {key: model for key, model in member.listed.items() if key not in held}
            member.listed, member.later = (kept if member.state is State.RELEASED else {}), set()
            self._txn(*(delete(shadow_key(member.instance, key)) for key in held), self._record(member))

    def end_lease(self, member: Member) -> None:
        """And the worker comes back at once, with the same id: the hardest case."""
        self.store = self.store.revoke(member.lease)
        member.state, member.listed, member.later, member.is_known = State.HELD, {}, set(), False
        self._remember()
        self.store = self.store.grant(member.lease)

    def other(self, name: str, lease: int, *, is_there: bool) -> None:
        """A key that no template knows, on somebody's lease or on none."""
        key = Key(f"v1/event_channels/{name}".encode())
        self._txn(put(key, self._value(None), lease) if is_there else delete(key))

    def shown(self, revision: int, view: dict[str, Any]) -> dict[bytes, Item]:
        """What a preview of this view is to show at a revision, by key. The view: `instance`, `only`, `model`."""
        moment, found = self.moments[revision], dict[bytes, Item]()
        for key, item in moment.store.items.items():
            if key.startswith(b"\x01greenroom/held/"):
                instance, _, own = key.removeprefix(b"\x01greenroom/held/").partition(b"/")
                if self._is_shown(moment, instance.decode(), view):
                    found[own] = item
            elif not key.startswith(b"\x01") and not (view.get("only") and self._is_of_others(item, view["instance"])):
                found[key] = item
        return found

    def revisions(self) -> Iterator[int]:
        yield from sorted(self.moments)

    def _is_shown(self, moment: Moment, instance: str, view: dict[str, Any]) -> bool:
        if view.get("model"):
            return instance in moment.matched[view["model"]]
        return view.get("instance") in (None, instance)

    def _is_of_others(self, item: Item, instance: str) -> bool:
        if item.key.startswith((b"v1/mdc/", b"v1/instances/")):
            return instance.encode() not in item.key.split(b"/")
        return item.lease not in (0, int(instance, 16), FRONTEND_LEASE)

    def _held(self, member: Member) -> list[Key]:
        return [key for kind in ("card", "lora", "instance") if self._at(member, key := member.key(kind))]

    def _at(self, member: Member, key: Key) -> Any:
        return self.store.items.get(shadow_key(member.instance, key))

    def _record(self, member: Member) -> Any:
        member.is_known = True
        return put(record_key(member.instance), member.record(), member.lease)

    def _value(self, model: str | None) -> bytes:
        self._serial += 1
        return json.dumps({"card_json": {"display_name": model}, "serial": self._serial}).encode()

    def _txn(self, *operations: Any) -> None:
        self.store, _ = self.store.txn(rpc_pb2.TxnRequest(success=operations))
        self._remember()

    def _remember(self) -> None:
        known = [member for member in self.members if member.is_known]
        matched = {model: frozenset(one.instance for one in known if one.matches(model)) for model in MODELS}
        # The end of a lease without keys is no revision.
        self.moments.setdefault(self.store.revision, Moment(self.store, matched))

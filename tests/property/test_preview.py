"""A client of a preview sees, at every revision, what it would see had everything been released: whatever happens.

It reads at any moment and watches from there, as Dynamo's clients do; its reader is cut off anywhere and comes back.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from greenroom.core.keyspace import Key, in_range
from greenroom.core.preview import View
from greenroom.core.preview_reads import read_answer, read_txn
from greenroom.core.preview_watch import PreviewWatch
from greenroom.core.selectors import Selector
from greenroom.core.templates import dynamo_gated_keys
from greenroom.pb.etcd import kv_pb2, rpc_pb2
from tests.support.model_etcd import Item, ModelEtcd
from tests.support.preview_fleet import ELSEWHERE_LEASE, FRONTEND_LEASE, LEASES, MODELS, PreviewFleet

RANGES = [
    (b"v1/mdc/", b"v1/mdc0"),
    (b"v1/instances/", b"v1/instances0"),
    (b"v1/event_channels/", b"v1/event_channels0"),
    (b"v1/", b"v10"),
    (b"\0", b"\0"),
    (b"v1/mdc/dynamo/c1/generate/a1", b""),
    (b"v1/mdc/dynamo/c1/generate/a1/a", b""),
]
Shown = dict[str, Any]
"""What a preview is to show: `instance`, `only`, `model`."""
VIEWS: list[Shown] = [
    {},
    {"instance": "a1"},
    {"instance": "a1", "only": True},
    *({"model": model} for model in MODELS),
]
NAMES = (
    *("register", "register", "register", "edit", "delete", "release", "release"),
    *("withdraw", "drop", "end_lease", "other", "other"),
)

steps = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.sampled_from((0, 0, 1, 2)),
        st.sampled_from(("card", "lora", "instance")),
        st.sampled_from(MODELS),
        st.sampled_from((0, FRONTEND_LEASE, ELSEWHERE_LEASE, *LEASES)),
    ),
    min_size=4,
    max_size=25,
)


def registered(model: str) -> tuple[str, int, str, str, int]:
    return ("register", 0, "card", model, 0)


@pytest.mark.parametrize("view", VIEWS, ids=str)
@example(
    # A card that was deleted comes back as another model's: nothing is there that a selector's change could take away.
    steps=[registered("tiny"), ("delete", 0, "card", "tiny", 0), registered("large")],
    holds_instances=False,
    range_=RANGES[0],
    start=0,
    has_previous=True,
    batches=[1] * 30,
)
@example(
    # One card becomes another model's, and what else is held of its instance is gone with it.
    steps=[registered("tiny"), ("register", 0, "lora", "large", 0), registered("large")],
    holds_instances=False,
    range_=RANGES[0],
    start=0,
    has_previous=True,
    batches=[1] * 30,
)
@settings(max_examples=120)
@given(
    steps=steps,
    holds_instances=st.booleans(),
    range_=st.sampled_from(RANGES),
    start=st.just(0) | st.integers(0, 25),
    has_previous=st.booleans(),
    batches=st.lists(st.integers(1, 4), min_size=30, max_size=30),
)
def test_whatever_happens_a_preview_shows_it_as_if_released(
    view: Shown,
    steps: list[tuple[str, int, str, str, int]],
    holds_instances: bool,
    range_: tuple[bytes, bytes],
    start: int,
    has_previous: bool,
    batches: list[int],
) -> None:
    fleet = moved(steps, holds_instances=holds_instances)
    own, moments = view_of(view, holds_instances=holds_instances), sorted(fleet.moments)
    start = moments[start % len(moments)]
    known = {kv.key: kv.value for kv in read(fleet.moments[start].store, own, range_).kvs}
    assert known == expected(fleet, start, view, range_)
    newest = start
    for events in watched(fleet, own, range_, start, has_previous=has_previous, batches=batches):
        for revision in range(newest + 1, max(event.kv.mod_revision for event in events) + 1):
            before = fleet.shown(revision - 1, view)
            of_it = [event for event in events if event.kv.mod_revision == revision]
            assert len({event.kv.key for event in of_it}) == len(of_it), "each key once a revision"
            for event in of_it:
                take(known, event, before, has_previous=has_previous)
            assert known == expected(fleet, revision, view, range_), f"at revision {revision}"
            newest = revision
    assert known == expected(fleet, fleet.store.revision, view, range_), "nothing is missing at the end"


def moved(steps: list[tuple[str, int, str, str, int]], *, holds_instances: bool) -> PreviewFleet:
    fleet = PreviewFleet(holds_instances=holds_instances)
    for name, number, kind, model, lease in steps:
        member = fleet.members[number]
        match name:
            case "register":
                fleet.register(member, kind, model)
            case "edit" | "delete":
                getattr(fleet, name)(member, kind)
            case "other":
                fleet.other(str(number), lease, is_there=kind != "lora")
            case _:
                getattr(fleet, name)(member)
    return fleet


def view_of(view: Shown, *, holds_instances: bool) -> View:
    selector = Selector(model=view["model"]) if "model" in view else None
    gated_keys = dynamo_gated_keys(instances=holds_instances)
    return View(gated_keys, view.get("instance"), selector, view.get("only", False), {FRONTEND_LEASE})


def read(store: ModelEtcd, view: View, range_: tuple[bytes, bytes], **options: Any) -> rpc_pb2.RangeResponse:
    request = rpc_pb2.RangeRequest(key=range_[0], range_end=range_[1], **options)
    txn = read_txn(request, view)
    if txn is None:
        return store.range(rpc_pb2.RangeRequest(key=max(range_[0], b"\x02"), range_end=range_[1]))
    return read_answer(request, view, store.txn(txn)[1])


def expected(fleet: PreviewFleet, revision: int, view: Shown, range_: tuple[bytes, bytes]) -> dict[bytes, bytes]:
    shown = fleet.shown(revision, view)
    return {key: item.value for key, item in shown.items() if in_range(Key(key), *range_)}


def take(known: dict[bytes, bytes], event: kv_pb2.Event, before: dict[bytes, Item], *, has_previous: bool) -> None:
    """What a client makes of an event; what the event says of before is so."""
    key = event.kv.key
    if event.type == kv_pb2.Event.DELETE:
        assert key in known, "nothing is deleted that was not there"
        del known[key]
    else:
        known[key] = event.kv.value
    assert event.HasField("prev_kv") == (has_previous and key in before)
    if event.HasField("prev_kv"):
        assert (event.prev_kv.key, event.prev_kv.value) == (key, before[key].value)


def watched(
    fleet: PreviewFleet,
    view: View,
    range_: tuple[bytes, bytes],
    start: int,
    *,
    has_previous: bool,
    batches: list[int],
) -> Iterator[list[kv_pb2.Event]]:
    """The events that a watch from after `start` is told, response by response; some revisions come in one."""
    create = rpc_pb2.WatchCreateRequest(
        key=range_[0], range_end=range_[1], start_revision=start + 1, prev_kv=has_previous
    )
    by_records = PreviewWatch(create, view).needs_records
    matching = fleet.moments[start].matched[view.selector.model] if by_records and view.selector else frozenset()
    watch = PreviewWatch(create, view, matching, start + 1 if by_records else 0)
    revisions, sizes = [revision for revision in fleet.revisions() if revision > start], iter(batches)
    while revisions:
        size = next(sizes)
        batch, revisions = revisions[:size], revisions[size:]
        events = [event for revision in batch for event in told(fleet, watch.upstream, revision)]
        response = rpc_pb2.WatchResponse(events=events)
        if events and (shown := shown_of(fleet, watch, response)) is not None:
            yield list(shown.events)


def shown_of(fleet: PreviewFleet, watch: PreviewWatch, response: rpc_pb2.WatchResponse) -> rpc_pb2.WatchResponse | None:
    if watch.is_plain:
        return response
    shadows = {}
    for revision, instance in watch.unread(response):
        prefix = b"\x01greenroom/held/" + instance.encode() + b"/"
        items = fleet.moments[revision].store.items
        shadows[revision, instance] = [item.message() for key, item in sorted(items.items()) if key.startswith(prefix)]
    return watch.shown(response, shadows)


def told(fleet: PreviewFleet, create: rpc_pb2.WatchCreateRequest, revision: int) -> Iterator[kv_pb2.Event]:
    """etcd's own events of one revision."""
    store = fleet.moments[revision].store
    if not store.changes or store.revision != revision:
        return
    before = fleet.moments[revision - 1].store.items
    for key, item in store.changes:
        if in_range(Key(key), create.key, create.range_end):
            kind = kv_pb2.Event.PUT if item else kv_pb2.Event.DELETE
            kv = item.message() if item else kv_pb2.KeyValue(key=key, mod_revision=revision)
            previous = before[key].message() if create.prev_kv and key in before else None
            yield kv_pb2.Event(type=kind, kv=kv, prev_kv=previous)

"""One watch of etcd's for each of a client's, and what is shown of it. Histories: tests/property/test_preview.py."""

from typing import Any

import pytest

from greenroom.core.keyspace import SHADOWS, shadow_key
from greenroom.core.preview import View
from greenroom.core.preview_watch import PreviewWatch
from greenroom.core.selectors import Selector
from greenroom.core.templates import dynamo_gated_keys
from greenroom.pb.etcd import kv_pb2, rpc_pb2
from tests.support.mirroring import ONE, TWO, delete_event, put_event
from tests.support.registering import card_key

GATED = dynamo_gated_keys(instances=False)
Create = rpc_pb2.WatchCreateRequest
CARDS = {"key": b"v1/mdc/", "range_end": b"v1/mdc0"}
SHADOW = shadow_key(ONE, card_key(ONE))
RELEASE = [put_event(card_key(ONE), b"card", 9), delete_event(SHADOW, 9)]
PUT, DELETE = kv_pb2.Event.PUT, kv_pb2.Event.DELETE


def told(watch: PreviewWatch, *events: kv_pb2.Event) -> list[tuple[int, bytes, int]]:
    response = rpc_pb2.WatchResponse(events=events)
    assert watch.unread(response) == []
    shown = watch.shown(response, {})
    return [(event.type, event.kv.key, event.kv.mod_revision) for event in (shown.events if shown else ())]


def test_it_begins_at_the_shadows_and_sees_whole_revisions() -> None:
    create = Create(**CARDS, start_revision=5, filters=[Create.NOPUT], fragment=True, watch_id=3, progress_notify=True)
    asked = PreviewWatch(create, View(GATED)).upstream
    expected = Create(key=SHADOWS, range_end=CARDS["range_end"], start_revision=5, watch_id=3, progress_notify=True)
    assert asked == expected
    one = PreviewWatch(Create(key=card_key(ONE)), View(GATED)).upstream
    assert (one.key, one.range_end) == (SHADOW, card_key(ONE) + b"\0")


def test_where_nothing_is_held_it_is_the_clients_own() -> None:
    create = Create(key=b"v1/instances/", range_end=b"v1/instances0", filters=[Create.NOPUT])
    watch = PreviewWatch(create, View(GATED))
    assert (watch.is_plain, watch.upstream) == (True, create)
    alone = PreviewWatch(create, View(GATED, instance=ONE, only=True))
    assert (alone.is_plain, alone.upstream.prev_kv) == (False, True), "what is of others must be told from what is not"


def test_a_release_is_one_put_and_a_withdrawal_too() -> None:
    withdrawal = [put_event(SHADOW, b"card", 10), delete_event(card_key(ONE), 10)]
    watch = PreviewWatch(Create(**CARDS), View(GATED))
    assert told(watch, *RELEASE, *withdrawal) == [(PUT, card_key(ONE), 9), (PUT, card_key(ONE), 10)]


@pytest.mark.parametrize(("one", "kinds"), [(Create.NOPUT, {DELETE}), (Create.NODELETE, {PUT})])
def test_filters_are_of_what_is_shown(one: Any, kinds: set[int]) -> None:
    """Were they etcd's, a release would be a deletion to whoever wants no puts."""
    watch = PreviewWatch(Create(**CARDS, filters=[one]), View(GATED))
    assert {kind for kind, _, _ in told(watch, *RELEASE, delete_event(shadow_key(TWO, card_key(TWO)), 10))} == kinds


def test_what_says_no_events_passes_and_what_shows_none_does_not() -> None:
    watch = PreviewWatch(Create(**CARDS), View(GATED, instance=TWO))
    progress = rpc_pb2.WatchResponse(watch_id=3)
    assert watch.shown(progress, {}) is progress
    assert told(watch, put_event(SHADOW, b"card", 8), put_event(b"v1/instances/x", b"", 9)) == []


def test_who_asked_for_progress_is_told_it_with_what_is_not_shown() -> None:
    watch = PreviewWatch(Create(**CARDS, progress_notify=True), View(GATED, instance=TWO))
    response = rpc_pb2.WatchResponse(watch_id=3, events=[put_event(SHADOW, b"card", 8)])
    response.header.revision = 20
    watch.unread(response)
    told_progress = watch.shown(response, {})
    assert told_progress is not None
    assert (told_progress.watch_id, told_progress.header.revision, len(told_progress.events)) == (3, 8, 0)


def test_previous_values_are_told_to_who_asked_for_them() -> None:
    released, dropped = RELEASE[0], kv_pb2.Event()
    dropped.CopyFrom(RELEASE[1])
    dropped.prev_kv.key, dropped.prev_kv.value = SHADOW, b"held"
    for asked in (True, False):
        watch = PreviewWatch(Create(**CARDS, prev_kv=asked), View(GATED))
        response = rpc_pb2.WatchResponse(events=[released, dropped])
        watch.unread(response)
        shown = watch.shown(response, {})
        assert shown is not None
        [event] = shown.events
        assert event.HasField("prev_kv") == asked
        assert (event.prev_kv.key, event.prev_kv.value) == ((card_key(ONE), b"held") if asked else (b"", b""))


@pytest.mark.parametrize(
    ("before", "after", "shown", "has_previous"),
    [
        (9, 7, [PUT], False),
        (7, 7, [PUT], True),
        (7, 9, [DELETE], True),
        (9, 9, [], False),
        (None, 7, [PUT], False),
        (None, 9, [], False),
        (7, None, [DELETE], True),
        (9, None, [], False),
        (None, None, [DELETE], False),
    ],
)
def test_alone_a_key_that_changes_hands_appears_or_is_gone(
    before: int | None, after: int | None, shown: list[int], has_previous: bool
) -> None:
    """On leases 7, the preview's own, and 9. Of what etcd no longer remembers, a deletion too many harms nobody."""
    view = View(GATED, instance=ONE, only=True, own_leases={7})
    watch = PreviewWatch(Create(key=b"v1/e", range_end=b"v1/f", prev_kv=True), view)
    event = put_event(b"v1/e", b"", 9) if after else delete_event(b"v1/e", 9)
    event.kv.lease = after or 0
    if before:
        event.prev_kv.key, event.prev_kv.lease = b"v1/e", before
    response = rpc_pb2.WatchResponse(events=[event])
    watch.unread(response)
    seen = watch.shown(response, {})
    assert [(one.type, one.HasField("prev_kv")) for one in (seen.events if seen else ())] == [
        (kind, has_previous) for kind in shown
    ]


def test_what_the_watch_looks_at_before_its_time_is_not_shown() -> None:
    """One that begins in the future follows the records from now on."""
    view = View(GATED, selector=Selector(model="x"))
    watch = PreviewWatch(Create(**CARDS, start_revision=10), view, frozenset({ONE}), first_revision=8)
    assert (watch.needs_records, watch.upstream.start_revision) == (True, 8)
    assert told(watch, *RELEASE, put_event(SHADOW, b"card", 10)) == [(PUT, card_key(ONE), 10)]

"""Which instances are meant, and in which order they come."""

from datetime import timedelta

import pytest

from greenroom.control.filters import InstanceFilter, first_seen, instance_filter
from greenroom.errors import InvalidRequest
from greenroom.pb.control.v1 import control_pb2 as pb
from greenroom.store.mirrored import MirroredInstance
from tests.support.mirroring import ONE, TWO
from tests.support.registering import COMPONENT, MODEL, NAMESPACE, held_record, now


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        (InstanceFilter(), True),
        (InstanceFilter(pb.INSTANCE_STATE_HELD, NAMESPACE, COMPONENT, MODEL), True),
        (InstanceFilter(state=pb.INSTANCE_STATE_RELEASED), False),
        (InstanceFilter(namespace="dyn"), False),
        (InstanceFilter(component="frontend"), False),
        (InstanceFilter(model="Qwen"), False),
    ],
)
def test_everything_given_must_match(wanted: InstanceFilter, matches: bool) -> None:
    assert wanted.matches(held_record(ONE)) is matches


@pytest.mark.parametrize("request_type", [pb.ListInstancesRequest, pb.WatchInstancesRequest])
def test_lists_and_streams_have_the_same_filters(request_type: type) -> None:
    request = request_type(state=pb.INSTANCE_STATE_HELD, namespace="n", component="c", model="m")
    assert instance_filter(request) == InstanceFilter(pb.INSTANCE_STATE_HELD, "n", "c", "m")
    with pytest.raises(InvalidRequest, match="state: 17"):
        instance_filter(request_type(state=17))


def test_different_filters_are_told_apart_by_their_text() -> None:
    some = [InstanceFilter(), InstanceFilter(namespace="a"), InstanceFilter(component="a"), InstanceFilter(model="a")]
    assert len({str(one) for one in some}) == len(some)


def test_the_longest_known_comes_first() -> None:
    at = now()
    old, new, twin = (
        MirroredInstance(name, held_record(name, at=when), 7, frozenset(), None)
        for name, when in ((TWO, at - timedelta(seconds=1)), (ONE, at), (TWO, at))
    )
    assert sorted([twin, new, old], key=first_seen) == [old, new, twin]

"""Which instances a list or a stream is about, and in which order they come. Pure."""

from dataclasses import dataclass
from typing import Protocol

from greenroom.control.views import STATES
from greenroom.core.record import Record
from greenroom.errors import InvalidRequest
from greenroom.pb.control.v1 import control_pb2
from greenroom.store.in_order import place_of
from greenroom.store.mirrored import MirroredInstance


class Filters(Protocol):
    """What the requests that have filters have in common."""

    state: "control_pb2.InstanceState.ValueType"
    namespace: str
    component: str
    model: str


@dataclass(frozen=True, slots=True)
class InstanceFilter:
    """Everything given must match; 0 and empty text match anything. `str` of it tells different filters apart."""

    state: "control_pb2.InstanceState.ValueType" = control_pb2.INSTANCE_STATE_UNSPECIFIED
    namespace: str = ""
    component: str = ""
    model: str = ""

    def __str__(self) -> str:
        return repr((self.state, self.namespace, self.component, self.model))

    def matches(self, record: Record) -> bool:
        """Whether an instance with this record is meant."""
        return (
            (not self.state or STATES[record.state] == self.state)
            and (not self.namespace or self.namespace in record.distinct("namespace"))
            and (not self.component or self.component in record.distinct("component"))
            and (not self.model or self.model in record.distinct("model"))
        )


def instance_filter(request: Filters) -> InstanceFilter:
    """The filters of a request; InvalidRequest for a state that this version does not know."""
    if request.state not in (control_pb2.INSTANCE_STATE_UNSPECIFIED, *STATES.values()):
        raise InvalidRequest(f"state: {request.state} is not known to this version", field="state")
    return InstanceFilter(request.state, request.namespace, request.component, request.model)


def first_seen(mirrored: MirroredInstance) -> tuple[str, str]:
    """The place in that order: by when it was first seen, which never changes, and then by name."""
    return place_of(mirrored.instance, mirrored.record)

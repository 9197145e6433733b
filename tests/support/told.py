"""Responses of WatchInstances, built by hand for tests of what the command line makes of them."""

from greenroom.pb.control.v1 import control_pb2 as pb


def response(*events: pb.InstanceEvent, token: str = "") -> pb.WatchInstancesResponse:
    return pb.WatchInstancesResponse(events=events, resume_token=token)


def event(kind: str, instance: pb.Instance | None = None, removal: str = "UNSPECIFIED") -> pb.InstanceEvent:
    """`kind` and `removal` as the proto's words without what they begin with."""
    return pb.InstanceEvent(
        type=pb.InstanceEventType.Value(f"INSTANCE_EVENT_TYPE_{kind}"),
        instance=instance,
        removal_reason=pb.RemovalReason.Value(f"REMOVAL_REASON_{removal}"),
    )


def snapshot(*instances: pb.Instance, token: str = "t1") -> pb.WatchInstancesResponse:
    """A whole one, in one response."""
    return response(*(event("EXISTING", instance) for instance in instances), event("SYNCED"), token=token)

"""A watch response in parts, for clients that asked for that: as etcd cuts those that are too large."""

from collections.abc import Iterator

from greenroom.pb.etcd import rpc_pb2

MAX_FRAGMENT_BYTES = 1536 * 1024 + 512 * 1024
"""Where etcd cuts: its own limit of a request, and what it allows beside."""


def fragments(response: rpc_pb2.WatchResponse, max_bytes: int = MAX_FRAGMENT_BYTES) -> Iterator[rpc_pb2.WatchResponse]:
    """The response itself where it is small enough; else one after the other, all but the last marked."""
    if response.ByteSize() < max_bytes:
        yield response
        return
    part, size = _empty(response), 0
    for event in response.events:
        event_bytes = event.ByteSize()
        if part.events and size + event_bytes >= max_bytes:
            part.fragment = True
            yield part
            part, size = _empty(response), 0
        part.events.append(event)
        size += event_bytes
    yield part


def _empty(response: rpc_pb2.WatchResponse) -> rpc_pb2.WatchResponse:
    part = rpc_pb2.WatchResponse()
    part.header.CopyFrom(response.header)
    part.watch_id = response.watch_id
    return part

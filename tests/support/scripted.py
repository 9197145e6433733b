"""A control API whose streams of instances are given, for tests of what is made of them."""

from collections.abc import Iterator
from typing import Any

from greenroom.errors import ControlError
from greenroom.pb.control.v1 import control_pb2 as pb


class Scripted:
    """A control API whose streams are given; an error at a stream's end is how it ends."""

    def __init__(self, *streams: list[pb.WatchInstancesResponse | ControlError]) -> None:
        self.streams, self.asked = list(streams), list[str]()

    def watch_instances(self, resume_token: str = "", **_: Any) -> Iterator[pb.WatchInstancesResponse]:
        self.asked.append(resume_token)
        for said in self.streams.pop(0):
            if isinstance(said, ControlError):
                raise said
            yield said

"""What the public sees: each card that appears in etcd, and when, by a watch straight at etcd.

The rule: every event is kept, so a card that becomes public twice, or never, is noticed. The watch has a thread of its
own: whoever writes does not wait for it.
"""

import socket
import time
from collections import defaultdict
from collections.abc import Collection
from threading import Condition, Thread
from typing import Self

from greenroom.pb.etcd import kv_pb2, rpc_pb2
from tests.bench.http2 import CallFailed, Connection
from tests.support.client import prefix_end
from tests.support.workers import CARDS

WATCH = "/etcdserverpb.Watch/Watch"
LOST_SECONDS = 60
"""A card that nothing has brought by then is taken for lost."""


class PublicCards:
    """The cards' Puts since it began, each with its time (of `time.perf_counter`)."""

    def __init__(self, etcd_port: int) -> None:
        self._seen: defaultdict[bytes, list[float]] = defaultdict(list)
        self._some = Condition()
        self._why_ended = ""
        self._watch = Connection(etcd_port, WATCH)
        create = rpc_pb2.WatchCreateRequest(key=CARDS, range_end=prefix_end(CARDS))
        self._watch.open(rpc_pb2.WatchRequest(create_request=create).SerializeToString())
        self._watch.next_message()
        self._thread = Thread(target=self._follow, name="public-cards")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._watch.close()

    def wait_for(self, keys: Collection[bytes]) -> list[float]:
        """When each became public. AssertionError for one that did not, or that did so more than once."""
        wanted = set(keys)
        with self._some:
            self._some.wait_for(lambda: bool(self._why_ended) or self._has(wanted), LOST_SECONDS)
            lost = [key for key in keys if key not in self._seen]
            assert not lost, f"{len(lost)} of {len(keys)} cards never became public: {lost[0]!r} {self._why_ended}"
            again = [key for key in keys if len(self._seen[key]) > 1]
            assert not again, f"{len(again)} of {len(keys)} cards became public twice: {again[0]!r}"
            return [self._seen[key][0] for key in keys]

    def _has(self, wanted: set[bytes]) -> bool:
        """Asked at each event: nothing that grows with the number is done before there are enough."""
        return len(self._seen) >= len(wanted) and self._seen.keys() >= wanted

    def _follow(self) -> None:
        try:
            while True:
                self._watch.receive()
                self._note(time.perf_counter(), self._watch.messages())
                self._watch.send_replies()
        except (CallFailed, OSError) as error:
            with self._some:
                self._why_ended = str(error)
                self._some.notify_all()

    def _note(self, seen_at: float, messages: list[bytes]) -> None:
        events = [event for message in messages for event in rpc_pb2.WatchResponse.FromString(message).events]
        with self._some:
            for event in events:
                if event.type == kv_pb2.Event.PUT:
                    self._seen[event.kv.key].append(seen_at)
            self._some.notify_all()

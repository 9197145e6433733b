"""How long a worker's call takes at worst while the proxy does something else.

The rule: one call after the other, by a thread of its own, of the one method that Greenroom does not look into.
"""

import time
from threading import Event, Thread
from typing import Self

from greenroom.pb.etcd import rpc_pb2
from tests.bench.http2 import Connection
from tests.bench.ways import STATUS

PAUSE_SECONDS = 0.002


class Relayed:
    """Calls from its entry to its exit; then `longest_seconds` is known."""

    def __init__(self, port: int) -> None:
        self.longest_seconds = 0.0
        self._connection = Connection(port, STATUS)
        self._stopping = Event()
        self._thread = Thread(target=self._call, name="relayed")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._connection.close()

    def _call(self) -> None:
        message = rpc_pb2.StatusRequest().SerializeToString()
        while not self._stopping.wait(PAUSE_SECONDS):
            began_at = time.perf_counter()
            self._connection.call(message)
            self.longest_seconds = max(self.longest_seconds, time.perf_counter() - began_at)

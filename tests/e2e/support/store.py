"""What etcd itself has, read beside the proxy: the facts that this ring compares with.

Rule: always etcd's own port. A worker is found by its lease, or by its id in the name of a key.
"""

from dataclasses import dataclass
from typing import Self

from greenroom.pb.etcd.kv_pb2 import KeyValue
from tests.support.etcd import Etcd
from tests.support.waiting import wait_for
from tests.support.watching import WatchLog

RESERVED = b"\x01greenroom/"
CARDS = b"v1/mdc/"
DYNAMO = b"v1/"
# etcd looks for ended leases twice a second; the rest is for a loaded machine.
EXPIRY_SLACK_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Lease:
    """What etcd says of a living lease; times in seconds."""

    granted_seconds: int
    remaining_seconds: int


class Store:
    """A real etcd and a client of it; `with` ends both."""

    def __init__(self) -> None:
        self.etcd = Etcd.launch()
        self.client = self.etcd.client()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.etcd.close()

    @property
    def url(self) -> str:
        return self.etcd.endpoint

    def listen_on(self, *more_ports: int) -> None:
        """Restarts etcd with the same data on its own port and on `more_ports`, and on no others."""
        self.client.close()
        urls = ",".join([self.url, *(f"http://127.0.0.1:{port}" for port in more_ports)])
        self.etcd.arguments = (f"--listen-client-urls={urls}", f"--advertise-client-urls={urls}")
        self.etcd.restart()
        self.client = self.etcd.client()

    def keys(self, prefix: bytes) -> list[bytes]:
        return [entry.key for entry in self.client.prefix(prefix, keys_only=True).kvs]

    def entry(self, key: bytes) -> KeyValue:
        """AssertionError when etcd has no such key."""
        entry = self.client.get(key)
        assert entry is not None, f"etcd has no {key!r}"
        return entry

    def watch_cards(self) -> WatchLog:
        """What any frontend could have seen from now on."""
        return self.client.watch(CARDS, CARDS[:-1] + b"0")

    def lease(self, lease_id: int) -> Lease | None:
        """None when the lease has ended; etcd counts an ended one below zero until its keys are removed."""
        answer = self.client.time_to_live(lease_id)
        return Lease(answer.grantedTTL, answer.TTL) if answer.TTL >= 0 else None

    def of_worker(self, lease_id: int) -> list[bytes]:
        """Every key under the worker's lease, and every key of ours or of Dynamo's that names it."""
        name = f"{lease_id:x}".encode()
        found = [*self.client.prefix(DYNAMO).kvs, *self.client.prefix(RESERVED).kvs]
        return [entry.key for entry in found if entry.lease == lease_id or name in entry.key]

    def wait_nothing_of(self, lease_id: int, timeout_seconds: float = EXPIRY_SLACK_SECONDS) -> None:
        wait_for(lambda: not self.of_worker(lease_id), timeout_seconds, f"no key of {lease_id:x} is left")

    def wait_renewed(self, lease_id: int) -> None:
        """Returns when a keepalive that was sent after this call has arrived: the remaining time is seen to grow."""
        last = self._living(lease_id)

        def grew() -> bool:
            nonlocal last
            before, last = last, self._living(lease_id)
            return last.remaining_seconds > before.remaining_seconds

        wait_for(grew, last.granted_seconds, f"lease {lease_id:x} is renewed")

    def _living(self, lease_id: int) -> Lease:
        lease = self.lease(lease_id)
        assert lease is not None, f"lease {lease_id:x} was lost"
        return lease

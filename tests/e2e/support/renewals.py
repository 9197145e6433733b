"""How long leases went without being renewed, seen from beside: etcd tells how much of a lease is left.

The rule: the age of a lease is what was granted less what is left, so no renewal is missed between two looks; etcd
counts in whole seconds, and so does this.
"""

import threading
from collections.abc import Sequence
from typing import Self

from tests.e2e.support.store import Store
from tests.support.waiting import wait_for

LOOK_SECONDS = 0.2
JOIN_SECONDS = 20


class Renewals:
    """Looks at leases on a thread of its own, from `with` to its end."""

    def __init__(self, store: Store, leases: Sequence[int]) -> None:
        self._client = store.etcd.client()
        self._ages = dict.fromkeys(leases, 0)
        self._counts = dict.fromkeys(leases, 0)
        self.worst_seconds = dict.fromkeys(leases, 0)
        self.lost: set[int] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, name="renewals", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(JOIN_SECONDS)
        self._client.close()

    def wait_each(self, timeout_seconds: float) -> None:
        """Returns when every lease has been renewed once more since this call."""
        before = dict(self._counts)
        wait_for(lambda: all(self._counts[lease] > before[lease] for lease in before), timeout_seconds, "renewals")

    def _look(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            for lease in self._ages:
                self._take(lease)

    def _take(self, lease: int) -> None:
        answer = self._client.time_to_live(lease, keys=False)
        age = answer.grantedTTL - answer.TTL
        if answer.TTL < 0:
            self.lost.add(lease)
        if age < self._ages[lease]:
            self._counts[lease] += 1
        self._ages[lease] = age
        self.worst_seconds[lease] = max(self.worst_seconds[lease], age)

"""How long to wait before trying again: doubling, jittered, bounded."""

import random


class Backoff:
    """Waits between tries, in seconds. By the longest, who was away is seen to be back within 5 s: etcd, or a proxy."""

    def __init__(self, first_seconds: float = 0.1, longest_seconds: float = 2.0) -> None:
        self._first, self._longest = first_seconds, longest_seconds
        self._next = first_seconds

    def next_seconds(self) -> float:
        """The next wait: between half of it and all of it, so that those who wait do not come back in step."""
        wait, self._next = self._next, min(2 * self._next, self._longest)
        return random.uniform(wait / 2, wait)

    def reset(self) -> None:
        """It worked: the next failure is the first again."""
        self._next = self._first

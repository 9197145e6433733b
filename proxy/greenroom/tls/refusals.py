"""Clients that were not let in for their certificate, or spoke no TLS: counted all, told now and then.

The rule: whoever can connect can fail as often as it likes, so the log gets one line in a while, with how many it is
about.
"""

from collections.abc import Callable
from typing import Any, Final

EVERY_SECONDS: Final = 10.0


class Refusals:
    """Those of one use of TLS. `clock` is monotonic seconds."""

    def __init__(self, use: str, *, clock: Callable[[], float], log: Any) -> None:
        self._use, self._clock, self._log = use, clock, log
        self._next = float("-inf")
        self._untold = 0
        self.number = 0

    def refused(self, reason: str) -> None:
        """One more, and why."""
        self.number += 1
        self._untold += 1
        now = self._clock()
        if now >= self._next:
            self._log.warning("tls.client.refused", use=self._use, reason=reason, clients=self._untold)
            self._next, self._untold = now + EVERY_SECONDS, 0

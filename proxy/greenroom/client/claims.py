"""A claim that renews itself, for as long as a check runs.

The rule: `lost` is set once nothing says any more that the claim stands. Whoever runs the check then stops: another
runner may be at it.
"""

from contextlib import suppress
from threading import Event, Thread
from time import monotonic
from typing import Final

from greenroom.client.calls import ControlCalls
from greenroom.client.reading import claim_of
from greenroom.client.values import Claim
from greenroom.errors import ControlError
from greenroom.pb.control.v1 import control_pb2

RENEWALS: Final = 3
"""In a claim's time: two may go wrong."""
TRIES: Final = 5
"""In the time from one renewal to the next, where one went wrong: a proxy may be restarting."""


class KeptClaim:
    """A claim in force, until `close`. `with greenroom.claim(…) as kept:` closes it."""

    def __init__(self, calls: ControlCalls, claim: control_pb2.Claim, ttl_seconds: float, claimed_at: float) -> None:
        """`claimed_at` is of time.monotonic(), before the claim was asked for."""
        self.claim: Claim = claim_of(claim)
        """As it was when it was claimed."""
        self.lost = Event()
        """Set when it ended, also by one's own verdict; `why_lost` says why."""
        self.why_lost = ""
        self._calls, self._token, self._ttl_seconds = calls, claim, ttl_seconds
        self._ends_at = claimed_at + ttl_seconds
        self._trouble = "it was not renewed in time"
        self._closing = Event()
        self._thread = Thread(target=self._keep, name=f"claim of {claim.name}", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"KeptClaim({self.claim.instance} {self.claim.gate} {self.claim.attempt}, {self.why_lost or 'kept'})"

    def close(self) -> None:
        """Ends the renewals and gives the claim back where it still stands. If nobody answers it ends by itself."""
        self._closing.set()
        self._thread.join()
        if not self.lost.is_set():
            with suppress(ControlError):
                self._calls.until(self._ends_at).release_claim(self._token)

    def _keep(self) -> None:
        pause = self._ttl_seconds / RENEWALS
        while not self.lost.is_set() and not self._closing.wait(min(pause, max(0.0, self._ends_at - monotonic()))):
            pause = self._ttl_seconds / RENEWALS / (1 if self._renew() else TRIES)

    def _renew(self) -> bool:
        if (asked_at := monotonic()) >= self._ends_at:
            self._lose(self._trouble)
            return False
        try:
            self._calls.until(self._ends_at).renew_claim(self._token)
        except ControlError as error:
            self._trouble = str(error)
            if not error.may_pass:
                self._lose(self._trouble)
            return False
        self._ends_at = asked_at + self._ttl_seconds
        return True

    def _lose(self, why: str) -> None:
        self.why_lost = why
        self.lost.set()

"""Finding the caller that a call comes from, by what the call brings.

The rules: a token that came is the one that counts, whatever certificate came with it; every hash is compared, so that
the time which that takes tells nothing; and a stranger is told the same of a wrong, a revoked and an expired one.
"""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from greenroom.access.callers import Caller
from greenroom.access.entries import Entry
from greenroom.access.refusals import Refusal
from greenroom.access.tokens import bearer
from greenroom.errors import Unauthenticated

WANTED: Final = "this call needs a token, sent as `authorization: Bearer TOKEN`, or a certificate that is known here"
NOT_KNOWN: Final = "nobody is known here by what came with this call: the token or certificate is wrong, or too old"


@dataclass(frozen=True, slots=True)
class Presented:
    """What a call brings to say who makes it, and where it comes from.

    `authorization` is the header's value, `certificate` the name in a client certificate that was verified.
    """

    authorization: str | None = field(default=None, repr=False)
    certificate: str | None = None
    peer: str = ""


class KnownCallers:
    """The callers of one state of the access file. It shows no hash."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._by_digest = [(bytes.fromhex(digest), entry) for entry in entries for digest in entry.token_sha256]
        self._by_certificate = {entry.certificate: entry for entry in entries if entry.certificate is not None}
        self.number = len(entries)

    def caller(self, presented: Presented, now: datetime) -> Caller:
        """Who makes the call; Unauthenticated where that is nobody who is known, or not any more."""
        entry = self._entry(presented)
        if entry.expires is not None and now >= entry.expires:
            raise Unauthenticated(NOT_KNOWN, cause=Refusal.EXPIRED, caller=entry.name)
        return entry.caller

    def _entry(self, presented: Presented) -> Entry:
        if presented.authorization is not None:
            found = self._of_token(presented.authorization)
        elif presented.certificate is not None:
            found = self._by_certificate.get(presented.certificate)
        else:
            raise Unauthenticated(WANTED, cause=Refusal.MISSING)
        if found is None:
            # A certificate was verified, so its name is somebody's; a token that is not known is a secret still.
            shown = presented.certificate if presented.authorization is None else None
            raise Unauthenticated(NOT_KNOWN, cause=Refusal.UNKNOWN, caller=shown or "")
        return found

    def _of_token(self, authorization: str) -> Entry | None:
        token = bearer(authorization)
        if token is None:
            raise Unauthenticated(WANTED, cause=Refusal.MALFORMED)
        digest, found = hashlib.sha256(token.encode()).digest(), None
        for known, entry in self._by_digest:
            if hmac.compare_digest(known, digest):
                found = entry
        return found

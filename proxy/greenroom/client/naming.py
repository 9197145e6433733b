"""What callers call the things that an error is about: a command has options, a program has arguments.

The rule: an error is put into words in one place, and only what stands here differs between those who read it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from greenroom.addresses import Address

_COMMON: Final = {
    "STALE_ATTEMPT": "look at the instance for the attempt that is open: a changed card or a retry opens another one",
    "FENCE_CONTENDED": "try again",
    "NOT_READY": "its /ready says more",
    "TOO_MANY_WATCHERS": "end one of them, or ask another proxy",
    "NOT_PERMITTED": "whoever keeps the access file can change what you may",
}


@dataclass(frozen=True, slots=True)
class Naming:
    """The words of one kind of caller."""

    control: str
    """Where the control API is asked."""
    elsewhere: str
    """How to say that it is asked at another address, as the end of a sentence."""
    ca: str
    """The CAs that an https:// control port is verified by."""
    cert: str
    key: str
    token: str
    token_file: str
    known_by: str
    """What says who is calling."""
    insecure: str
    """How to let a token cross the network in plaintext, as the end of a sentence."""
    advice: Mapping[str, str] = field(default_factory=dict)
    """What to do, by the ErrorInfo's reason, where it is not the same for everybody."""

    def what_to_do(self, reason: str) -> str | None:
        """About an error that the proxy itself answered with; None where its own message is all there is to say."""
        if reason == "UNAUTHENTICATED":
            who = f"{self.known_by} say who you are"
            return f"{who}; whoever keeps the access file makes a token by `greenroom access new-token`"
        return self.advice.get(reason) or _COMMON.get(reason)

    def tls_may_be_wanted(self, address: Address) -> str:
        """What may be the reason where the port just closes the connection."""
        if address.is_secure:
            return f"it may want a certificate of certain CAs ({self.cert}, {self.key})"
        return f"it may speak TLS ({self.control} https://…, {self.ca})"


ARGUMENTS: Final = Naming(
    control="address",
    elsewhere="by the address that is given",
    ca="ca_file",
    cert="cert_file",
    key="key_file",
    token="token",
    token_file="token_file",
    known_by="token or token_file",
    insecure="say insecure_token=True",
    advice={"UNKNOWN_INSTANCE": "instances() lists those that there are"},
)
"""Those of `Greenroom(...)`."""

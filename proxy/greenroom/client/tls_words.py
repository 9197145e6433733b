"""What is wrong with TLS towards a control port, from what gRPC says when it cannot connect."""

from typing import Final

from greenroom.addresses import Address
from greenroom.client.naming import Naming

_CLOSED: Final = "Socket closed"
_VERIFY_FAILED: Final = "CERTIFICATE_VERIFY_FAILED: "


def tls_trouble(details: str, address: Address, naming: Naming) -> str | None:
    """What the port does wrong, and will do again; None where it is not TLS that kept gRPC from connecting."""
    if "Hostname Verification Check failed" in details:
        return f"its certificate is for other names than {address.host}"
    if _VERIFY_FAILED in details:
        why = details.split(_VERIFY_FAILED)[1].split(":")[0]
        return f"its certificate cannot be verified by {naming.ca}: {why}"
    return "it does not speak TLS; try http://" if "WRONG_VERSION_NUMBER" in details else None


def maybe_tls(details: str, address: Address, naming: Naming) -> str:
    """What may be the reason where it just closed the connection; empty where it did not."""
    return f"; it closed the connection: {naming.tls_may_be_wanted(address)}" if _CLOSED in details else ""

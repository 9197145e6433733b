"""gRPC's errors of connections, as it gives them, in words."""

import pytest

from greenroom.addresses import Address
from greenroom.cli.client import OPTIONS
from greenroom.client.tls_words import maybe_tls, tls_trouble

PLAIN = Address("control.fleet", 2390)
SECURE = Address("control.fleet", 2390, is_secure=True)
FAILED = "failed to connect to all addresses; last error: "
HANDSHAKE = f"{FAILED}UNKNOWN: ipv4:127.0.0.1:1: Tls handshake failed (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: "
CLOSED = f"{FAILED}UNAVAILABLE: ipv4:127.0.0.1:1: Socket closed"


@pytest.mark.parametrize(
    ("details", "said"),
    [
        (
            f"{FAILED}UNKNOWN: ipv4:127.0.0.1:1: Custom verification check failed with error: UNAUTHENTICATED: "
            "Hostname Verification Check failed.",
            "its certificate is for other names than control.fleet",
        ),
        (
            f"{HANDSHAKE}error:1000007d:SSL routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: "
            "unable to get local issuer certificate: OK",
            "its certificate cannot be verified by --control-ca: unable to get local issuer certificate",
        ),
        (
            f"{HANDSHAKE}error:100000f7:SSL routines:OPENSSL_internal:WRONG_VERSION_NUMBER: Invalid certificate",
            "it does not speak TLS; try http://",
        ),
        (CLOSED, None),
        (f"{FAILED}UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to remote host: Connection refused", None),
    ],
)
def test_what_is_wrong_is_told(details: str, said: str | None) -> None:
    assert tls_trouble(details, SECURE, OPTIONS) == said


def test_a_connection_that_is_closed_at_once_has_a_likely_reason() -> None:
    """A server that wants a certificate says so only to those who speak the newest TLS; gRPC does not pass it on."""
    assert "--control-cert" in maybe_tls(CLOSED, SECURE, OPTIONS)
    assert "--control https://" in maybe_tls(CLOSED, PLAIN, OPTIONS)
    assert maybe_tls("Connection refused", SECURE, OPTIONS) == ""

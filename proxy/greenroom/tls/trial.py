"""A certificate is tried before it is used: in a handshake with itself, in memory, as its peers will look at it.

The rule: the peer here trusts exactly this certificate, so what it finds wrong is wrong with the certificate itself:
it has expired, is not valid yet, or is for something else.
"""

import re
import ssl
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

Certificate = dict[str, Any]
"""As `getpeercert` of ssl has it: subject, subjectAltName, notAfter …"""

_FIRST: Final = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
MOST_TURNS: Final = 10
"""Of both ends: a handshake takes two or three."""


class Role(StrEnum):
    """Which end of connections shows the certificate."""

    SERVER = "server"
    CLIENT = "client"


def tried(certificate: Path, key: Path, role: Role) -> Certificate:
    """The certificate as a peer reads it; ssl.SSLError where the peer refuses it."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    # Whichever end is tried, the server needs a certificate; for a client's trial the same one will do.
    server.load_cert_chain(certificate, key, password="")
    if role is Role.CLIENT:
        client.load_cert_chain(certificate, key, password="")
    peer = client if role is Role.SERVER else server
    peer.verify_mode = ssl.CERT_REQUIRED
    peer.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # It need not be its own CA.
    peer.load_verify_locations(cadata=_first(certificate))
    ends = _shaken_hands(server, client)
    return ends[peer].getpeercert() or {}


def _first(certificate: Path) -> str:
    found = _FIRST.search(certificate.read_text("ascii", "replace"))
    return found.group() if found else ""


def _shaken_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> dict[ssl.SSLContext, ssl.SSLObject]:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = {
        client: client.wrap_bio(to_client, to_server),
        server: server.wrap_bio(to_server, to_client, server_side=True),
    }
    waiting = list(ends.values())
    for _ in range(MOST_TURNS):
        waiting = [end for end in waiting if not _is_done(end)]
    assert not waiting, "a handshake ends, or fails"
    return ends


def _is_done(end: ssl.SSLObject) -> bool:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True

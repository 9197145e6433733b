"""What is refused of browsers: they take pages of strangers to ports that only this machine can reach.

The rules:

* A port that anybody on this machine may use is safe from the net only as long as no browser here can be sent to it
  under a stranger's name (DNS rebinding). So requests to it must be for an address, for `localhost` or for this
  machine's own name, which no stranger can point anywhere.
* A browser says where the page comes from that asks for a change. A page of another origin has no business here, unless
  it sends a token, which no browser adds by itself as it does certificates.
"""

import ipaddress
import socket
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LOCALHOST: Final = "localhost"
MISDIRECTED: Final = 421
FORBIDDEN: Final = 403
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def guarded(app: ASGIApp, *, own_names_only: bool) -> ASGIApp:
    """The app without what browsers must not do; with `own_names_only` under names of this machine only."""

    async def asked(scope: Scope, receive: Receive, send: Send) -> None:
        refusal = _refusal(scope, own_names_only=own_names_only) if scope["type"] == "http" else None
        await (refusal or app)(scope, receive, send)

    return asked


def _refusal(scope: Scope, *, own_names_only: bool) -> ASGIApp | None:
    headers = Headers(scope=scope)
    host, origin = headers.get("host", ""), headers.get("origin")
    if own_names_only and not is_own_name(host):
        words = (
            f"the host {host[:100]!r} is no name of this machine, and this port is open to all who are on it: ask for "
            "localhost or an address, or have `greenroom serve` know its callers (--access)"
        )
        return _error(MISDIRECTED, "FAILED_PRECONDITION", words)
    is_change = scope["method"] not in _READING and "authorization" not in headers
    if is_change and origin is not None and origin.partition("://")[2].lower() != host.lower():
        words = f"a page of {origin[:100]!r} may change nothing at {host[:100]!r} without a token"
        return _error(FORBIDDEN, "PERMISSION_DENIED", words)
    return None


def is_own_name(host: str) -> bool:
    """Whether a Host header names this machine in a way that a stranger cannot; so does none, as no browser sends."""
    try:
        name = (urlsplit(f"//{host}").hostname or "").removesuffix(".")
    except ValueError:
        return False
    return name in ("", LOCALHOST, socket.gethostname().lower()) or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _error(code: int, status: str, words: str) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "status": status, "message": words}}, status_code=code)

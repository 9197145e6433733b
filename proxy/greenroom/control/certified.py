"""Who a request to the HTTP port is from, and what is open to those who show no certificate.

The rule: a certificate that is shown has been verified before the request is read. Kubelets, load balancers and
Prometheus have none, and are told what concerns them all the same.
"""

import asyncio
import re
from typing import Final, cast

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from greenroom.control.connections import BoundedProtocol
from greenroom.tls.identity import identity_of

OPEN_PAGES: Final = re.compile("/(live|ready|metrics|v1/health|v1/instances/[^/]+/health)")
_IDENTITY: Final = "greenroom.identity"


def identity_in(scope: Scope) -> str | None:
    """The name in the certificate that whoever sent the request has shown; None without either."""
    return cast(str | None, scope.get(_IDENTITY))


class IdentifyingProtocol(BoundedProtocol):
    """One connection: each of its requests gets the identity of who made it into its scope."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """asyncio calls it, with TLS once hands are shaken."""
        super().connection_made(transport)
        if certificate := transport.get_extra_info("peercert"):
            self.app = _identified(self.app, identity_of(certificate))


def certified(app: ASGIApp, *, needs_certificate: bool) -> ASGIApp:
    """The app as far as it is open to whoever asks: without a certificate OPEN_PAGES only, where one is needed."""

    async def asked(scope: Scope, receive: Receive, send: Send) -> None:
        is_open = not needs_certificate or scope["type"] != "http" or OPEN_PAGES.fullmatch(scope["path"]) is not None
        if is_open or _IDENTITY in scope:
            await app(scope, receive, send)
            return
        words = "a client certificate is needed, of the CAs in --control-tls-client-ca"
        error = {"code": 401, "status": "UNAUTHENTICATED", "message": words}
        await JSONResponse({"error": error}, status_code=401)(scope, receive, send)

    return asked


def _identified(app: ASGIApp, identity: str | None) -> ASGIApp:
    async def identified(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, _IDENTITY: identity}, receive, send)

    return identified

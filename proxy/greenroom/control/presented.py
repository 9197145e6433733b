"""What a call brings to say who makes it, out of gRPC's context and out of an HTTP request."""

from collections.abc import Iterable
from typing import Any, Final

import grpc
from starlette.requests import Request

from greenroom.access.known import Presented
from greenroom.addresses import Address
from greenroom.control.certified import identity_in
from greenroom.tls.identity import identity_of_call

AUTHORIZATION: Final = "authorization"
SEVERAL: Final = ","
"""Between several values of one header, which makes no bearer token of them."""


def presented_by(context: grpc.aio.ServicerContext[Any, Any]) -> Presented:
    """Of a call of the control port."""
    values = [_text(value) for key, value in context.invocation_metadata() or () if key == AUTHORIZATION]
    return Presented(_one(values), identity_of_call(context.auth_context()), context.peer())


def presented_in(request: Request) -> Presented:
    """Of a request to the HTTP port."""
    client = request.client
    peer = str(Address(client.host, client.port)) if client else ""
    return Presented(_one(request.headers.getlist(AUTHORIZATION)), identity_in(request.scope), peer)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")


def _one(values: Iterable[str]) -> str | None:
    """None where there is none: an empty one is there, and says nothing."""
    found = list(values)
    return SEVERAL.join(found) if found else None

"""What says who makes a call, out of gRPC's contexts and HTTP's requests."""

from collections.abc import Iterable
from typing import Any

import pytest
from starlette.requests import Request

from greenroom.access.known import Presented
from greenroom.control.presented import presented_by, presented_in

PEER = "ipv4:10.0.0.7:4242"


class Context:
    def __init__(self, *metadata: tuple[str, str | bytes], **names: Iterable[bytes]) -> None:
        self._metadata, self._names = metadata, names

    def invocation_metadata(self) -> tuple[tuple[str, str | bytes], ...] | None:
        return self._metadata or None

    def auth_context(self) -> dict[str, Iterable[bytes]]:
        return dict(self._names)

    def peer(self) -> str:
        return PEER


def by(context: Any) -> Presented:
    return presented_by(context)


@pytest.mark.parametrize(
    ("metadata", "authorization"),
    [
        ((), None),
        ((("user-agent", "x"),), None),
        ((("authorization", "Bearer a"),), "Bearer a"),
        ((("authorization", b"Bearer a"),), "Bearer a"),
        ((("authorization", ""),), ""),
        ((("authorization", "Bearer a"), ("authorization", "Bearer b")), "Bearer a,Bearer b"),
    ],
)
def test_the_header_of_a_call(metadata: tuple[tuple[str, str | bytes], ...], authorization: str | None) -> None:
    """Two of them are none that anybody would know: which one counts must not depend on who reads."""
    assert by(Context(*metadata)) == Presented(authorization, None, PEER)


@pytest.mark.parametrize(
    ("names", "certificate"),
    [
        ({"peer_uri": [b"spiffe://a", b"spiffe://b"], "peer_dns": [b"a.example"]}, "spiffe://a"),
        ({"peer_dns": [b"a.example"], "peer_email": [b"ann@example"]}, "a.example"),
        ({"peer_email": [b"ann@example"]}, "ann@example"),
        ({"x509_common_name": [b"ann"]}, None),
        ({"transport_security_type": [b"insecure"]}, None),
    ],
)
def test_a_certificate_names_by_its_alternative_name(names: dict[str, list[bytes]], certificate: str | None) -> None:
    assert by(Context(**names)).certificate == certificate


def test_the_header_of_a_request() -> None:
    scope = {"type": "http", "client": ("::1", 5), "headers": [(b"authorization", b"Bearer a")]}
    assert presented_in(Request(scope)) == Presented("Bearer a", None, "[::1]:5")
    assert presented_in(Request({"type": "http", "client": None, "headers": []})) == Presented(None, None, "")
    known = {"type": "http", "client": None, "headers": [], "greenroom.identity": "a.example"}
    assert presented_in(Request(known)).certificate == "a.example"


def test_the_secret_is_in_no_repr() -> None:
    assert "secret" not in repr(by(Context(("authorization", "Bearer secret"))))

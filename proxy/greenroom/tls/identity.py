"""Who a client is, by the certificate that it showed and that was verified.

The rule: the name is the certificate's alternative name: a URI, as SPIFFE has them, before a DNS name before an e-mail
address; of several of a kind the first. Never the subject: its common name is free text, and CAs look after the others.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

_KINDS: Final = ("URI", "DNS", "email")
_GRPC_KINDS: Final = ("peer_uri", "peer_dns", "peer_email")


def identity_of(certificate: Mapping[str, Any] | None) -> str | None:
    """From what ssl's `getpeercert` gives: the HTTP port's clients, and those of etcd's port. None for nobody."""
    names: Iterable[tuple[str, str]] = (certificate or {}).get("subjectAltName", ())
    return _first({kind: [name for found, name in names if found == kind] for kind in _KINDS}, _KINDS)


def identity_of_call(auth_context: Mapping[str, Iterable[bytes]]) -> str | None:
    """From what gRPC's `ServicerContext.auth_context` gives: the control port's clients. None for nobody."""
    found = {kind: [name.decode("utf-8", "replace") for name in auth_context.get(kind, ())] for kind in _GRPC_KINDS}
    return _first(found, _GRPC_KINDS)


def _first(names: Mapping[str, list[str]], kinds: Iterable[str]) -> str | None:
    """What no terminal, log or header could show as it is, is nobody's name."""
    first = next((names[kind][0] for kind in kinds if names[kind]), "")
    return first if first.isprintable() and first else None

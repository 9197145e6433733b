"""Who a client is, by its certificate: the same for both ways to read one."""

from collections.abc import Sequence

import pytest

from greenroom.tls.identity import identity_of, identity_of_call

URI, DNS, EMAIL, IP = (
    ("URI", "spiffe://fleet/probe"),
    ("DNS", "probe.fleet"),
    ("email", "ann@fleet"),
    ("IP Address", "::1"),
)
GRPC = {"URI": "peer_uri", "DNS": "peer_dns", "email": "peer_email", "IP Address": "peer_ip"}


@pytest.mark.parametrize(
    ("names", "identity"),
    [
        ((EMAIL, DNS, URI, IP), "spiffe://fleet/probe"),
        ((EMAIL, IP, DNS), "probe.fleet"),
        ((IP, EMAIL), "ann@fleet"),
        ((IP,), None),
        ((), None),
        ((DNS, ("DNS", "other.fleet")), "probe.fleet"),
        ((("DNS", "probe\n"),), None),
        ((("DNS", ""),), None),
        ((("URI", ""), DNS), None),
    ],
)
def test_a_uri_before_a_dns_name_before_an_address_of_mail(
    names: Sequence[tuple[str, str]], identity: str | None
) -> None:
    """The subject is nobody's name."""
    certificate = {"subject": ((("commonName", "root"),),), "subjectAltName": tuple(names)}
    assert identity_of(certificate) == identity
    context: dict[str, list[bytes]] = {"x509_common_name": [b"root"]}
    for kind, name in names:
        context.setdefault(GRPC[kind], []).append(name.encode())
    assert identity_of_call(context) == identity


def test_nobody_showed_a_certificate() -> None:
    assert identity_of(None) is None
    assert identity_of({}) is None
    assert identity_of_call({"transport_security_type": [b"ssl"]}) is None

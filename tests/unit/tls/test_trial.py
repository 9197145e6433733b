"""A certificate is looked at as its peers will look at it."""

import ssl
from pathlib import Path

import pytest

from greenroom.tls.trial import Role, tried
from tests.support.certificates import HERE, Authority


@pytest.mark.parametrize("role", Role)
def test_a_good_one_is_read_as_peers_read_it(tmp_path: Path, role: Role) -> None:
    issued = Authority(tmp_path).issue(HERE, "etcd.local")
    found = tried(issued.cert, issued.key, role)
    assert set(found["subjectAltName"]) == {("IP Address", HERE), ("DNS", "etcd.local")}


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize(("ends_in_seconds", "said"), [(-1, "certificate has expired")])
def test_one_that_has_expired_is_refused(tmp_path: Path, role: Role, ends_in_seconds: float, said: str) -> None:
    issued = Authority(tmp_path).issue(ends_in_seconds=ends_in_seconds)
    with pytest.raises(ssl.SSLCertVerificationError) as refused:
        tried(issued.cert, issued.key, role)
    assert refused.value.verify_message == said

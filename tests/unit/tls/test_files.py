"""The files of TLS: what is wrong with one by itself, and when they have changed."""

from pathlib import Path

import pytest

from greenroom.errors import SettingsError
from greenroom.tls.files import NamedFile, TlsFiles, client_files
from tests.support.certificates import Authority, Issued


@pytest.fixture
def issued(tmp_path: Path) -> Issued:
    return Authority(tmp_path).issue()


def test_what_is_in_them_is_read_and_the_key_is_in_no_repr(issued: Issued) -> None:
    pem = issued.files.read()
    assert (pem.certificates, pem.key) == (issued.cert.read_bytes(), issued.key.read_bytes())
    assert pem.trusted == issued.ca.read_bytes()
    assert "PRIVATE" not in repr(pem)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "has no private key in PEM form"),
        (b"-----BEGIN CERTIFICATE-----\n", "has no private key in PEM form"),
        (b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nc2VjcmV0", "is encrypted"),
        (b"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n", "is encrypted"),
    ],
)
def test_a_wrong_key_is_told_by_option_and_path(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError) as raised:
        NamedFile("--tls-key", path).key()
    assert str(raised.value).startswith(f"--tls-key '{path}': {said}")
    assert "c2VjcmV0" not in str(raised.value)
    assert raised.value.metadata == {"field": "tls_key"}


@pytest.mark.parametrize("kind", [b"EC ", b"RSA ", b""])
def test_keys_of_every_kind_are_keys(tmp_path: Path, kind: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"-----BEGIN " + kind + b"PRIVATE KEY-----\n")
    assert NamedFile("--tls-key", path).key()


def test_a_key_in_the_place_of_a_certificate_is_told(issued: Issued) -> None:
    with pytest.raises(SettingsError, match="has no certificate in PEM form"):
        NamedFile("--tls-cert", issued.key).certificates()


def test_a_side_names_all_its_files(issued: Issued) -> None:
    pair, trusted = issued.pair, NamedFile("--tls-client-ca", issued.cert)
    assert TlsFiles(pair, trusted).paths == [issued.cert, issued.key, issued.cert]
    assert TlsFiles(trusted=trusted).paths == [issued.cert]


@pytest.mark.parametrize(("mode", "told"), [(0o600, None), (0o400, None), (0o640, "0640"), (0o604, "0604")])
def test_a_key_that_others_may_read_is_noticed(issued: Issued, mode: int, told: str | None) -> None:
    issued.key.chmod(mode)
    assert issued.pair.key.open_to_others() == told
    issued.key.unlink()
    assert issued.pair.key.open_to_others() is None


def test_the_side_that_connects_may_have_no_certificate(issued: Issued) -> None:
    alone = client_files("--upstream", issued.ca, None, None)
    assert (alone.pair, str(alone)) == (None, f"--upstream-ca '{issued.ca}'")
    both = client_files("--upstream", issued.ca, issued.cert, issued.key)
    assert str(both) == (f"--upstream-cert '{issued.cert}', --upstream-key '{issued.key}', --upstream-ca '{issued.ca}'")

"""From files to contexts, and what is said of files that are wrong."""

import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from greenroom.errors import SettingsError
from greenroom.tls.contexts import H2, HTTP_1, Loaded, load_client, load_server, load_upstream
from greenroom.tls.files import NamedFile, TlsFiles
from tests.support.certificates import HERE, Authority, Issued
from tests.support.tls_dialogue import shake_hands


def server(files: TlsFiles, told: Callable[[str], None] = print, protocol: str = H2) -> Loaded:
    return load_server(files, protocol, ssl.CERT_REQUIRED, told)


@pytest.fixture
def issued(tmp_path: Path) -> Issued:
    return Authority(tmp_path).issue()


def test_both_sides_know_each_other_and_speak_http_2(issued: Issued) -> None:
    ends = shake_hands(server(issued.files).context, load_client(issued.files).context, HERE)
    assert [end.selected_alpn_protocol() for end in ends] == [H2, H2]
    assert ends[0].getpeercert() == ends[1].getpeercert()


def test_a_port_may_speak_another_protocol(issued: Issued) -> None:
    ends = shake_hands(server(issued.files, protocol=HTTP_1).context, load_client(issued.files).context, HERE)
    assert ends[0].selected_alpn_protocol() is None


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_nobody_takes_up_a_session_of_other_files_since_that_shows_no_certificate(
    issued: Issued, version: ssl.TLSVersion
) -> None:
    """A CA that was taken out would go on letting people in, for as long as their sessions last."""
    client = load_client(issued.files).context
    client.maximum_version = version
    _, before = shake_hands(server(issued.files).context, client, HERE)
    assert before.session is None or not before.session.has_ticket
    _, after = shake_hands(server(issued.files).context, client, HERE, session=before.session)
    assert not after.session_reused


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (lambda good, other: TlsFiles(trusted=good.trusted), "peer did not return a certificate"),
        (lambda good, other: TlsFiles(other.pair, good.trusted), "unable to get local issuer certificate"),
    ],
)
def test_who_is_not_let_in_is_told_of(
    issued: Issued, tmp_path: Path, files: Callable[[Issued, Issued], TlsFiles], said: str
) -> None:
    told: list[str] = []
    other = Authority(tmp_path / "other").issue()
    with pytest.raises(ssl.SSLError):
        shake_hands(server(issued.files, told.append).context, load_client(files(issued, other)).context, HERE)
    assert told == [said]


def test_a_server_of_another_name_or_authority_is_refused(issued: Issued, tmp_path: Path) -> None:
    ours = server(TlsFiles(issued.pair)).context
    client = load_client(TlsFiles(trusted=issued.trusted)).context
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(ours, client, "elsewhere")
    stranger = Authority(tmp_path / "other")
    client = load_client(TlsFiles(trusted=NamedFile("--upstream-ca", stranger.ca))).context
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        shake_hands(ours, client, HERE)


def test_the_end_is_known(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue(ends_in_seconds=3600)
    expires = server(issued.files).expires
    assert expires is not None
    assert 3500 < (expires - datetime.now(UTC)).total_seconds() <= 3600
    assert load_client(TlsFiles(trusted=issued.trusted)).expires is None


def test_a_key_of_another_certificate_is_told_with_both(issued: Issued, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other").issue()
    issued.key.write_bytes(other.key.read_bytes())
    with pytest.raises(SettingsError) as raised:
        server(issued.files)
    assert str(raised.value) == f"--tls-key '{issued.key}': does not belong to --tls-cert '{issued.cert}'"


def test_one_that_has_expired_is_told(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue(ends_in_seconds=-1)
    with pytest.raises(SettingsError) as raised:
        server(issued.files)
    assert str(raised.value) == f"--tls-cert '{issued.cert}': no client would take it: certificate has expired"
    with pytest.raises(SettingsError, match="no server would take it: certificate has expired"):
        load_upstream(issued.files)


@pytest.mark.parametrize("which", ["cert", "key", "ca"])
def test_one_that_only_looks_like_pem_is_told(issued: Issued, which: str) -> None:
    path: Path = getattr(issued, which)
    lines = path.read_text().splitlines()
    path.write_text("\n".join((lines[0], "bm9uc2Vuc2U=", lines[-1], "")))
    with pytest.raises(SettingsError) as raised:
        server(issued.files)
    assert f"'{path}'" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_name_that_etcd_could_take_for_a_user_is_refused_towards_etcd_only(tmp_path: Path) -> None:
    """With etcd's auth on, whoever comes without a token would be the proxy's certificate."""
    issued = Authority(tmp_path).issue(common_name="root")
    with pytest.raises(SettingsError, match="has the common name 'root'"):
        load_upstream(issued.files)
    assert server(issued.files)


def test_grpc_gets_the_same(issued: Issued) -> None:
    assert server(issued.files).grpc_server() is not None
    assert load_client(issued.files).grpc_channel() is not None

"""The three uses of TLS of one proxy."""

from pathlib import Path

import grpc
import pytest

from greenroom.errors import SettingsError
from greenroom.settings import Settings, load_settings
from greenroom.tls.contexts import H2, load_client
from greenroom.tls.files import TlsFiles
from greenroom.tls.sides import Sides
from tests.support.certificates import HERE, Authority, Issued
from tests.support.control_side import EventLog
from tests.support.tls_dialogue import shake_hands


def settings_with(issued: Issued) -> Settings:
    given = {"upstream": ["https://127.0.0.1:2379"], "gate": ["smoke=900s"], "upstream_ca": str(issued.ca)}
    for side in ("tls", "control_tls"):
        files = {"cert": issued.cert, "key": issued.key, "client_ca": issued.ca}
        given |= {f"{side}_{name}": str(path) for name, path in files.items()}
    return load_settings({**given, "upstream_cert": str(issued.cert), "upstream_key": str(issued.key)})


@pytest.fixture
def issued(tmp_path: Path) -> Issued:
    return Authority(tmp_path).issue()


def test_without_files_there_is_none() -> None:
    settings = load_settings({"upstream": ["http://127.0.0.1:2379"], "gate": ["smoke=900s"]})
    assert Sides.load(settings, log=EventLog()) == Sides()
    assert Sides().all() == []


def test_a_wrong_file_is_told_at_once(issued: Issued) -> None:
    issued.ca.unlink()
    with pytest.raises(SettingsError, match=f"^--tls-client-ca '{issued.ca}': cannot be read"):
        Sides.load(settings_with(issued), log=EventLog())


def test_etcds_clients_need_a_certificate_and_those_of_http_may_have_none(issued: Issued) -> None:
    sides = Sides.load(settings_with(issued), log=EventLog())
    assert sides.listen is not None
    assert sides.control is not None
    assert sides.listen.knows_clients
    nobody, somebody = (load_client(files).context for files in (TlsFiles(trusted=issued.trusted), issued.files))
    ours, _ = shake_hands(sides.listen.context, somebody, HERE)
    assert ours.selected_alpn_protocol() == H2
    shake_hands(sides.control.context, nobody, HERE)
    with pytest.raises(OSError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        shake_hands(sides.listen.context, nobody, HERE)
    assert (sides.listen.refused, sides.control.refused) == (1, 0)


def test_new_files_are_everybodys_at_once(issued: Issued, tmp_path: Path) -> None:
    sides = Sides.load(settings_with(issued), log=EventLog())
    assert sides.upstream is not None
    before = sides.upstream.grpc_credentials()
    assert isinstance(before, grpc.ChannelCredentials)
    assert sides.upstream.grpc_credentials() is before
    assert sides.upstream.refused == 0
    Authority(tmp_path).issue()
    for _ in range(2):
        for side in sides.all():
            side.reloaded.look()
    assert [side.reloaded.reloads for side in sides.all()] == [1, 1, 1]
    assert sides.upstream.grpc_credentials() is not before


def test_open_keys_are_told_of_by_use(issued: Issued) -> None:
    log = EventLog()
    issued.key.chmod(0o644)
    Sides.load(settings_with(issued), log=log).warn_of_open_keys()
    assert [entry["use"] for entry in log.named("tls.key.open.to.others")] == ["listen", "control", "upstream"]

"""New connections are made by the newest context."""

import ssl
from pathlib import Path

import pytest

from greenroom.tls.contexts import H2, load_client, load_server
from greenroom.tls.files import TlsFiles
from greenroom.tls.newest import NewestContext
from tests.support.certificates import HERE, Authority
from tests.support.tls_dialogue import shake_hands


def test_each_connection_is_made_by_whichever_context_is_the_newest(tmp_path: Path) -> None:
    """Also what it asks of clients: a CA that was taken out lets nobody in any more."""
    old, new = (Authority(tmp_path / name).issue() for name in ("old", "new"))
    contexts = [load_server(issued.files, H2, ssl.CERT_REQUIRED, print).context for issued in (old, new)]
    newest = NewestContext(lambda: contexts[0])
    assert isinstance(newest, ssl.SSLContext)
    standing, _ = shake_hands(newest, load_client(old.files).context, HERE)
    contexts.pop(0)
    shake_hands(newest, load_client(new.files).context, HERE)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(newest, load_client(TlsFiles(old.pair, new.trusted)).context, HERE)
    assert standing.getpeercert()


def test_it_is_of_the_side_that_the_newest_is_of(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue()
    client = NewestContext(lambda: load_client(issued.files).context)
    assert client.protocol is ssl.PROTOCOL_TLS_CLIENT

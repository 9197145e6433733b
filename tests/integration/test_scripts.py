"""The development scripts: what they tell apart decides whether a run fails, so it is tried on real pip and protoc."""

import http.server
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import generate_protos
from scripts.setup_common import SetupError, cached_environment, pip_install
from tests.support.ports import free_port


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

"""How the demonstration's proxy ends, and what is said of that."""

import subprocess
from pathlib import Path

import grpc
import pytest

from greenroom.demo import run
from greenroom.errors import ControlError, StartError


class Told:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.checks: list[tuple[str, bool]] = []

    def check(self, statement: str, holds: bool) -> None:
        self.checks.append((statement, holds))

    def tell(self, who: str, what: str) -> None:
        self.lines.append(f"{who}: {what}")


def started(program: str) -> "subprocess.Popen[bytes]":
    """A process of the shell's that has said that it is ready."""
    process = subprocess.Popen(["sh", "-c", program], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"ready\n"
    return process


def test_a_proxy_that_does_not_stop_is_killed_and_fails_the_demonstration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "STOP_SECONDS", 0.1)
    told = Told()
    stubborn = "trap '' TERM; echo ready; exec sleep 600"
    (tmp_path / "log").write_text("last words")
    run._stop(started(stubborn), tmp_path / "log", told)  # type: ignore[arg-type]
    assert told.lines == ["greenroom: ended with status -9: last words"]
    assert told.checks == [("the proxy and its etcd stop in good order", False)]


class Failed(grpc.RpcError):
    """As grpcio raises it."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "connection\nrefused"


@pytest.mark.parametrize("error", [Failed(), ControlError("UNAVAILABLE: connection refused", ControlError.UNREACHABLE)])
def test_a_call_that_fails_is_one_line(error: Exception, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("out of memory\n")
    with started("echo ready; exit 3") as process:
        process.wait()
        words = (
            "the demonstration broke off: UNAVAILABLE: connection refused; "
            "greenroom serve ended with status 3: out of memory"
        )
        with pytest.raises(StartError, match=f"^{words}$"), run._breaking_off_in_words(process, tmp_path / "log"):
            raise error

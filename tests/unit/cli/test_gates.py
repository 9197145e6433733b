"""`greenroom gates run`: what is refused at the start, in one line and with exit code 2; and what options come to."""

import json
from typing import Any

import pytest

from greenroom.cli import gates_run
from greenroom.cli.gates import DYNAMO
from greenroom.cli.gates_run import RunnerSettings
from greenroom.cli.main import main
from greenroom.core.selectors import Selector
from greenroom.gates.gate_config import WantedHold

GATES = json.dumps({"smoke": {"exec": ["true"], "timeout_secs": 60}, "latency": {"exec": ["true"], "timeout_secs": 90}})


@pytest.fixture(autouse=True)
def _gates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYN_WORKER_VALIDATION_GATES", GATES)
    for name in ("DYN_WORKER_VALIDATION_HOLD", "GREENROOM_CONTROL"):
        monkeypatch.delenv(name, raising=False)


CONTROL = ("--control", "127.0.0.1:2390")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no control address: --control HOST:PORT, or GREENROOM_CONTROL"),
        ([*CONTROL, "--config", "x"], "--config 'x': DYN_WORKER_VALIDATION_GATES says what to run too; give one of"),
        ([*CONTROL, "--hold", "all"], "DYN_WORKER_VALIDATION_HOLD 'all': is neither card nor health"),
        ([*CONTROL, "--local-address", "10.0.0.7"], "--local-address '10.0.0.7': is for --local, which is not given"),
        ([*CONTROL, "--selector", "gpu=h100"], "--selector 'gpu=h100': 'gpu=h100' is no K=GLOB"),
        ([*CONTROL, "--selector", "suffix=a"], "--selector 'suffix=a': a runner selects by namespace, component"),
        ([*CONTROL, "--frontend", ""], "--frontend '': has no {port} for the port"),
        ([*CONTROL, "--frontend", "serve it"], "--frontend 'serve it': has no {port} for the port"),
        ([*CONTROL, "--frontend", "serve '{port}"], "--frontend 'serve '{port}': is no command: no closing quotation"),
        ([*CONTROL, "--keep-failed", "9"], "--keep-failed '9': '9' is no duration: add a unit"),
        ([*CONTROL, "--claim-ttl", "2s"], "--claim-ttl '2s': is not from 5s to 1h"),
        ([*CONTROL, "--listen", "9345"], "--listen '9345': is no host:port"),
        (["--control", "nowhere"], "--control 'nowhere': is no host:port"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["gates", "run", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"greenroom: {words}")


def settings_of(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> RunnerSettings:
    taken: list[Any] = []
    monkeypatch.setattr(gates_run, "run_gates", lambda *given: taken.append(given))
    assert main(["gates", "run", *CONTROL, *arguments]) == 0
    settings, place, *_ = taken[0]
    assert place.control == "127.0.0.1:2390"
    assert isinstance(settings, RunnerSettings)
    return settings


def test_by_default_there_is_no_frontend_and_everybody_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(monkeypatch)
    assert (settings.frontend, settings.selector, settings.local) == (None, Selector(), False)
    assert (settings.claim_seconds, str(settings.listen), settings.is_named) == (30, "127.0.0.1:9345", False)


@pytest.mark.parametrize("arguments", [["--frontend"], ["--frontend", "--local"], ["--frontend", DYNAMO]])
def test_a_frontend_is_dynamos_unless_a_command_is_given(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    frontend = settings_of(monkeypatch, *arguments).frontend
    assert frontend is not None
    assert frontend.command == tuple(DYNAMO.split())


def test_its_preview_lasts_for_the_longest_gate_and_whoever_looks_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    given = ("--frontend", "serve --port {port} '{etcd_endpoints}'", "--frontend-start", "10s", "--keep-failed", "20s")
    frontend = settings_of(monkeypatch, *given).frontend
    assert frontend is not None
    assert frontend.command == ("serve", "--port", "{port}", "{etcd_endpoints}")
    assert (frontend.start_seconds, frontend.keep_failed_seconds, frontend.preview_seconds) == (10, 20, 120)
    longest = settings_of(monkeypatch, "--frontend", "--keep-failed", "30d").frontend
    assert longest is not None
    assert longest.preview_seconds == 24 * 3600


def test_who_is_run_and_as_whom_can_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYN_WORKER_VALIDATION_HOLD", "card")
    given = ("--selector", "model=tiny*,component=backend", "--local", "--local-address", "10.0.0.7", "--runner", "ann")
    settings = settings_of(monkeypatch, *given)
    assert settings.selector == Selector(model="tiny*", component="backend")
    assert (settings.local, settings.local_addresses) == (True, ("10.0.0.7",))
    assert (settings.name, settings.is_named, settings.hold) == ("ann", True, WantedHold.CARD)

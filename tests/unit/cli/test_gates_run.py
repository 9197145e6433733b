"""A runner as it is composed. That it runs is in tests/integration/test_gates_run.py."""

import json
import socket

import pytest

from greenroom.cli.gates_run import _Chosen
from greenroom.cli.main import main
from greenroom.core.selectors import Selector
from greenroom.gates.gate_config import WantedHold
from greenroom.gates.selection import Selection
from tests.support.control_side import EventLog
from tests.support.ports import free_port
from tests.support.shown import shown


def test_a_port_that_is_taken_is_said_by_its_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DYN_WORKER_VALIDATION_GATES", json.dumps({"a": {"exec": ["true"], "timeout_secs": 1}}))
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        arguments = ["--control", f"127.0.0.1:{free_port()}", "--listen", f"127.0.0.1:{port}"]
        assert main(["gates", "run", *arguments]) == 1
    assert f"greenroom: --listen '127.0.0.1:{port}': Address already in use" in capsys.readouterr().err


def test_of_one_that_is_held_otherwise_the_log_says_so_once() -> None:
    log = EventLog()
    chosen = _Chosen(Selection(("smoke",), Selector(), None, WantedHold.HEALTH), log)
    assert not chosen(shown())
    assert not chosen(shown())
    assert not chosen(shown(gates={"other": "PENDING"}))
    (told,) = log.named("hold.differs")
    assert told["instance"] == shown().id
    assert told["why"].startswith("this runner was told hold 'health'")

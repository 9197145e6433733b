"""Log lines: one an event, on standard error, for people or for programs."""

import json
import logging
import os
import sys
from collections.abc import Iterator

import pytest
import structlog

from greenroom.logs import configure_logs
from greenroom.settings import LogFormat, LogLevel


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_json_lines_are_one_object_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogLevel.INFO, LogFormat.JSON)
    structlog.get_logger().info("instance.released", key=b"v1/mdc/\xff", revision=7)
    line = json.loads(capsys.readouterr().err)
    assert line["event"] == "instance.released"
    assert (line["key"], line["revision"], line["level"]) == ("v1/mdc/\\xff", 7, "info")
    assert line["timestamp"].endswith("Z")


def test_lines_for_people_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogLevel.INFO, LogFormat.CONSOLE)
    structlog.get_logger().warning("policy.differs", proxy="p1")
    captured = capsys.readouterr()
    assert "[warning] policy.differs proxy=p1" in captured.err
    assert captured.out == ""


def test_less_than_the_level_is_not_said(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogLevel.ERROR, LogFormat.CONSOLE)
    structlog.get_logger().warning("quiet")
    assert capsys.readouterr().err == ""


def test_libraries_go_the_same_way_from_warning_on(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogLevel.DEBUG, LogFormat.JSON)
    logging.getLogger("some.library").info("chatter")
    logging.getLogger("some.library").warning("matters")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == ["matters"]


@pytest.mark.parametrize("log_format", list(LogFormat))
def test_an_exception_shows_where_but_no_values(capsys: pytest.CaptureFixture[str], log_format: LogFormat) -> None:
    """A bug met while a card was handled: the log is read by more people than may see cards and tokens."""
    configure_logs(LogLevel.INFO, log_format)

    def meets_a_bug(token: str) -> None:
        raise KeyError(len(token))

    try:
        meets_a_bug("sec" + "ret")
    except KeyError as error:
        structlog.get_logger().error("handler.failed", exc_info=error)
    logged = capsys.readouterr().err
    assert "meets_a_bug" in logged
    assert "secret" not in logged


def test_a_name_can_neither_begin_a_line_nor_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    """A worker chooses its model's name, a check its reason, and an operator reads both in a terminal."""
    configure_logs(LogLevel.INFO, LogFormat.CONSOLE)
    structlog.get_logger().info(
        "instance.held",
        models="\x1b[2Jtiny",
        key=b"v1/\x1b[31m",
        reason="a\n2026 [info] instance.released",
        turn="\u202e",
    )
    logging.getLogger("some.library").warning("first\nsecond \x1b[2J")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == [
        r"[info] instance.held models=\x1b[2Jtiny key=v1/\x1b[31m reason='a\\n2026 [info] instance.released' "
        r"turn=\u202e",
        "[warning] first\\nsecond \\x1b[2J",
    ]


@pytest.mark.parametrize("log_format", LogFormat)
def test_nobody_who_logs_fails_because_the_reader_has_gone(
    monkeypatch: pytest.MonkeyPatch, log_format: LogFormat
) -> None:
    """As with a log collector that is started again: a signal's first step is a line in the log."""
    reading, writing = os.pipe()
    os.close(reading)
    broken = os.fdopen(writing, "w", buffering=1)
    monkeypatch.setattr(sys, "stderr", broken)
    configure_logs(LogLevel.INFO, log_format)
    structlog.get_logger().info("stopping", signal="SIGTERM")
    with pytest.raises(BrokenPipeError):
        broken.close()

"""How a run's descendants are known by their environment. Processes: tests/integration/test_guarded.py."""

from pathlib import Path

from greenroom.gates.leftovers import MARK, _environment, _marked


def test_an_environment_is_read_variable_by_variable(tmp_path: Path) -> None:
    (tmp_path / "environ").write_bytes(b"PATH=/bin\0" + f"{MARK}=1".encode() + b"\0")
    assert _environment(tmp_path)[:2] == [b"PATH=/bin", f"{MARK}=1".encode()]


def test_of_a_process_that_has_ended_there_is_none(tmp_path: Path) -> None:
    assert _environment(tmp_path / "gone") == []


def test_nobody_has_a_mark_that_was_given_to_nobody() -> None:
    assert list(_marked(f"{MARK}=nobody's".encode())) == []

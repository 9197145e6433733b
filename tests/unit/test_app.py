"""Putting the proxy together: the parts of it that need no etcd."""

from greenroom.app import Door, _first
from greenroom.errors import SettingsError, StartError


def test_the_first_of_several_errors_is_told() -> None:
    inner = BaseExceptionGroup("inner", [StartError("first"), SettingsError("second")])
    assert str(_first(BaseExceptionGroup("outer", [inner]))) == "first"


def test_a_bug_among_them_is_not_hidden() -> None:
    group = BaseExceptionGroup("outer", [StartError("expected"), RuntimeError("a bug")])
    assert _first(group) is group


def test_a_proxy_is_not_ready_before_workers_are_let_in_and_while_it_stops() -> None:
    door = Door()
    assert door.why_not_ready is not None
    door.open()
    assert door.why_not_ready is None
    door.close()
    assert door.why_not_ready is not None

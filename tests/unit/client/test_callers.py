"""Who is said to be calling."""

import pytest

from greenroom.client.callers import in_the_name_of, myself
from greenroom.errors import ControlError


def test_whoever_asks_is_named_for_the_trail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    monkeypatch.setattr("socket.gethostname", lambda: "desk")
    assert myself() == "ann@desk"


def test_a_user_without_a_name_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container the user id often has no entry anywhere."""
    monkeypatch.setattr("getpass.getuser", lambda: (_ for _ in ()).throw(KeyError("no entry")))
    assert myself().startswith("unknown@")


def test_who_is_not_known_after_all_is_asked_for_as_user_at_host() -> None:
    names: list[str] = []

    def send(name: str) -> str:
        names.append(name)
        if not name:
            raise ControlError("actor: is required", "INVALID_REQUEST", "preview.actor")
        return name

    assert in_the_name_of("", send) == myself()
    assert in_the_name_of("ann", send) == "ann"
    assert names == ["", myself(), "ann"]


def test_another_refusal_is_not_about_the_name() -> None:
    def send(name: str) -> str:
        raise ControlError("reason: is required", "INVALID_REQUEST", "reason")

    with pytest.raises(ControlError, match="reason"):
        in_the_name_of("", send)


def test_a_name_that_was_given_is_not_exchanged_for_another() -> None:
    names: list[str] = []

    def send(name: str) -> str:
        names.append(name)
        raise ControlError("actor: is not who you are", "NOT_PERMITTED", "actor")

    with pytest.raises(ControlError, match="not who you are"):
        in_the_name_of("ann", send)
    assert names == ["ann"]

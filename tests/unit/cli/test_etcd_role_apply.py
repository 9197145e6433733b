"""What is applied: only what is missing, told as it is done."""

from typing import cast

import pytest

from greenroom.cli.etcd_role_apply import AuthApi, apply, in_words
from greenroom.cli.etcd_role_commands import Plan
from greenroom.core.grants import WORKER_GRANTS, Grant
from greenroom.errors import EtcdCallError

PLAN = Plan("w", ("worker",), "p", "green", (Grant.of_prefix(b"v1/"),), "file")


class Api:
    """Users and roles in two dictionaries."""

    def __init__(self) -> None:
        self.of_role: dict[str, list[Grant]] = {}
        self.of_user: dict[str, list[str]] = {"worker": []}
        self.passwords: list[str] = []

    def grants(self, role: str) -> list[Grant] | None:
        return self.of_role.get(role)

    def roles(self, user: str) -> list[str] | None:
        return self.of_user.get(user)

    def add_role(self, role: str) -> None:
        self.of_role[role] = []

    def grant(self, role: str, grant: Grant) -> None:
        self.of_role[role].append(grant)

    def add_user(self, user: str, password: str) -> None:
        self.of_user[user] = []
        self.passwords.append(password)

    def grant_role(self, user: str, role: str) -> None:
        self.of_user[user].append(role)

    def applied(self, plan: Plan = PLAN) -> list[str]:
        told: list[str] = []
        assert apply(plan, cast(AuthApi, self), lambda: "secret", told.append) == len(told)
        return told


def test_everything_is_made_and_then_nothing() -> None:
    api = Api()
    assert len(api.applied()) == 8
    assert api.of_role == {"w": list(WORKER_GRANTS), "p": [Grant.of_prefix(b"v1/")]}
    assert api.of_user == {"worker": ["w"], "green": ["p"]}
    assert api.applied() == []
    assert api.passwords == ["secret"]


def test_what_is_granted_as_a_part_of_more_is_not_granted_again() -> None:
    api = Api()
    api.of_role = {"w": [Grant(b"\0", b"\0")], "p": [Grant(b"a", b"z")]}
    api.applied()
    assert api.of_role == {"w": [Grant(b"\0", b"\0")], "p": [Grant(b"a", b"z")]}


def test_a_workers_user_that_is_not_there_is_told() -> None:
    api = Api()
    api.of_user = {}
    with pytest.raises(EtcdCallError, match="no user 'worker'"):
        api.applied()


def test_no_secret_is_told() -> None:
    assert not any("secret" in line for line in Api().applied())


def test_keys_in_words() -> None:
    assert in_words(Grant.of_prefix(b"v1/")) == "keys that begin with b'v1/'"
    assert in_words(Grant(b"a", b"c")) == "keys from b'a' up to b'c'"
    assert in_words(Grant(b"a", b"\0")) == "keys from b'a' on"
    assert in_words(Grant(b"a", b"")) == "key b'a'"

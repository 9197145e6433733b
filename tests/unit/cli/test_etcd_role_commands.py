"""What is printed can be pasted into a shell. That it means there what it should: tests/integration/cli."""

import pytest

from greenroom.cli.etcd_role_commands import Plan, commands, shell_word
from greenroom.core.grants import WORKER_GRANTS, Grant, proxy_grants
from greenroom.core.policy import Policy

PLAN = Plan("w", ("a b", "c"), "p", "green", proxy_grants(Policy(), [b"od'd/"]), "my password")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (b"v1/mdc/", "v1/mdc/"),
        (b"a b", "'a b'"),
        (b"\x01greenroom/held/", r"$'\x01greenroom/held/'"),
        (b"\x01a'b\\c", r"$'\x01a\'b\\c'"),
        ("ü".encode(), r"$'\xc3\xbc'"),
        (b"\x02", r"$'\x02'"),
    ],
)
def test_a_word_stands_for_its_bytes(text: bytes, word: str) -> None:
    assert shell_word(text) == word


def test_the_files_of_tls_are_exported_before_anything_is_asked() -> None:
    lines = commands(PLAN, "https://a:1", {"ETCDCTL_CACERT": "my ca.pem"}).splitlines()
    at = lines.index("export ETCDCTL_ENDPOINTS=https://a:1")
    assert lines[at + 1] == "export ETCDCTL_CACERT='my ca.pem'"


def test_every_grant_is_a_command() -> None:
    lines = commands(PLAN, "").splitlines()
    assert [line for line in lines if line.startswith("etcdctl")] == [
        "etcdctl role add w",
        r"etcdctl role grant-permission w readwrite --prefix $'\x01greenroom/held/'",
        r"etcdctl role grant-permission w readwrite --prefix $'\x01greenroom/instances/'",
        "etcdctl user grant-role 'a b' w",
        "etcdctl user grant-role c w",
        "etcdctl role add p",
        r"etcdctl role grant-permission p readwrite --prefix $'\x01'",
        """etcdctl role grant-permission p readwrite --prefix 'od'"'"'d/'""",
        "etcdctl role grant-permission p readwrite --prefix v1/event_channels/",
        "etcdctl role grant-permission p readwrite --prefix v1/event_sources/",
        "etcdctl role grant-permission p readwrite --prefix v1/instances/",
        "etcdctl role grant-permission p readwrite --prefix v1/mdc/",
        "etcdctl user add green --interactive=false < 'my password'",
        "etcdctl user grant-role green p",
    ]


def test_a_range_that_is_no_prefix_has_two_ends() -> None:
    plan = Plan("w", (), "p", "green", (Grant(b"a", b"c"),), "f")
    assert "etcdctl role grant-permission p readwrite a c" in commands(plan, "").splitlines()


def test_where_etcd_is_comes_first_if_it_is_known() -> None:
    exports = [line for line in commands(PLAN, "http://127.0.0.1:2379").splitlines() if line.startswith("export")]
    assert exports == ["export ETCDCTL_ENDPOINTS=http://127.0.0.1:2379"]
    assert "\nexport" not in commands(PLAN, "")


def test_the_shell_finds_nothing_in_comments() -> None:
    """Pasted into zsh they are commands that do not exist, whose quotes would go on to the next line."""
    for plan in (PLAN, Plan("w", (), "p", "green", (), "file")):
        comments = [line for line in commands(plan, "").splitlines() if line.startswith("#")]
        assert comments
        assert not {*"'\"`$()<>|;&*?!\\"} & {*"".join(comments).replace("'my password'", "")}


def test_nothing_that_is_printed_asks_back() -> None:
    users = [line for line in commands(PLAN, "").splitlines() if "user add" in line]
    assert all("--interactive=false <" in line for line in users)


def test_every_user_is_told_of_its_role() -> None:
    assert PLAN.memberships == (("a b", "w"), ("c", "w"), ("green", "p"))
    assert PLAN.roles[0] == ("w", WORKER_GRANTS)

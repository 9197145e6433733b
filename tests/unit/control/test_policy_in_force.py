"""What is told of the policy in force."""

from datetime import UTC, datetime
from pathlib import Path

from greenroom.policy_file import parse_policy
from tests.support.control_side import EventLog
from tests.support.mirroring import unconnected
from tests.support.policies import policy_file, policy_in_force, rule

NOW = datetime(2026, 1, 2, tzinfo=UTC)


async def test_the_message_says_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(policy_file(rule("all")))
    policy = policy_in_force(unconnected(), log=EventLog(), file=path, clock=lambda: NOW)
    message = policy.message()
    assert parse_policy(message.text) == policy.source.current
    assert (message.name, message.digest, message.file) == ("policy", policy.source.current.digest, str(path))
    assert message.load_time.ToDatetime(UTC) == NOW
    assert not message.HasField("refusal")


async def test_what_was_refused_and_who_differs_is_told_on_the_page_too(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(policy_file(rule("all")))
    policy = policy_in_force(unconnected(), log=EventLog(), file=path, clock=lambda: NOW)
    path.write_text("rules: [")
    await policy.source.reload(asked=True)
    same, other = (
        {"address": f"{name}:1", "host": name, "policy": digest}
        for name, digest in (("a", policy.source.current.digest), ("b", "other"))
    )
    policy.presence._peers.seen({"two": other, "one": same})
    told = policy.told()
    assert told.keys() == {"digest", "file", "load_time", "refusal", "peers"}
    assert told["refusal"]["time"] == "2026-01-02T00:00:00Z"
    assert "is no YAML" in told["refusal"]["reason"]
    assert [(peer["proxy"], peer["digest"] == told["digest"], peer["differs"]) for peer in told["peers"]] == [
        ("one", True, False),
        ("two", False, True),
    ]

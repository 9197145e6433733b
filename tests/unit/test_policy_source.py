"""The policy in force, and what becomes of it when its file says something else."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from greenroom import policy_source
from greenroom.errors import SettingsError
from greenroom.policy_source import PolicySource, describe
from tests.support.control_side import EventLog, MovableClock
from tests.support.policies import policy_file, rule, settings_of


class Scene:
    """A policy file, and a proxy's holder of it."""

    def __init__(self, folder: Path, text: str = policy_file(rule("all"))) -> None:
        self.path, self.log = folder / "policy.yaml", EventLog()
        self.path.write_text(text)
        self.source = PolicySource(settings_of(self.path), clock=MovableClock(), log=self.log)

    async def says(self, text: str) -> None:
        self.path.write_text(text)
        await self.looked_at()

    async def looked_at(self) -> None:
        """As often as it takes until a change is read."""
        for _ in range(2):
            await self.source.reload(asked=False)

    @property
    def events(self) -> list[str]:
        return [event["event"] for event in self.log.events]


async def test_a_new_file_is_in_force_and_whoever_asked_is_told(tmp_path: Path) -> None:
    scene, told = Scene(tmp_path), []
    scene.source.on_change(lambda policy: told.append(policy.gate_names))
    before = scene.source.current
    await scene.says(policy_file(rule("all", "smoke", "latency")))
    assert scene.source.current.gate_names == {"smoke", "latency"}
    assert told == [{"smoke", "latency"}]
    assert before.gate_names == {"smoke"}
    [loaded] = scene.log.named("policy.loaded")
    assert (loaded["was"], loaded["digest"]) == (before.digest, scene.source.current.digest)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rules: [", "is no YAML"),
        ("rules:\n- gates: {}\n", "line 2: rules[0].gates: is empty"),
        ("rules: []\n", "has no rule: nothing would ever be held"),
        (
            "templates: [{pattern: 'svc/{instance}'}]\nrules:\n- gates: {smoke: {timeout_seconds: 1}}\n",
            "gates svc/{instance}, and this proxy v1/mdc/",
        ),
        (
            "rules:\n- {selector: {component: a}, hold: card+instance, gates: {smoke: {timeout_seconds: 1}}}\n",
            "cannot change while proxies run; stop all of them, and start them with the new file",
        ),
    ],
)
async def test_a_file_that_cannot_be_taken_leaves_the_policy_as_it_is(tmp_path: Path, text: str, why: str) -> None:
    scene = Scene(tmp_path)
    before = scene.source.current
    await scene.says(text)
    assert scene.source.current is before
    assert scene.source.refused is not None
    assert scene.source.refused.why.startswith(f"--policy '{scene.path}': ")
    assert why in scene.source.refused.why
    [refused] = scene.log.named("policy.refused")
    assert (refused["level"], refused["why"]) == ("error", scene.source.refused.why)
    assert before.digest[:8] in refused["kept"]


async def test_what_was_refused_is_told_once_until_somebody_asks_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for _ in range(3):
        await scene.says("rules: [")
    assert (scene.events, scene.source.failures) == (["policy.refused"], 1)
    await scene.source.reload(asked=True)
    assert (scene.events, scene.source.failures) == (["policy.refused"] * 2, 2)


async def test_a_file_that_is_right_again_is_no_longer_refused(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    before, loaded = scene.source.current, scene.source.loaded
    scene.path.unlink()
    await scene.looked_at()
    assert scene.source.refused is not None
    assert "cannot be read: No such file" in scene.source.refused.why
    await scene.says(policy_file("# The same, with a comment.", rule("all")))
    assert scene.source.refused is None
    assert (scene.source.current, scene.source.loaded) == (before, loaded)
    assert scene.events == ["policy.refused", "policy.unchanged"]


async def test_without_a_file_there_is_nothing_to_follow() -> None:
    """Then SIGHUP ends the program, as it does where a terminal is closed."""
    source = PolicySource(settings_of(), clock=MovableClock(), log=EventLog())
    await asyncio.wait_for(source.run(), 1)
    assert source.file == ""


async def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    """`--policy <(…)`: a second look would find it empty, or wait for somebody to write."""
    reading, writing = os.pipe()
    os.write(writing, policy_file(rule("all")).encode())
    os.close(writing)
    source = PolicySource(settings_of(Path(f"/dev/fd/{reading}")), clock=MovableClock(), log=EventLog())
    os.close(reading)
    await asyncio.wait_for(source.run(), 1)
    assert source.current.gate_names == {"smoke"}


async def test_a_signal_has_the_file_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nobody looking at the file by itself, and with a handler that is gone once the loop is."""
    monkeypatch.setattr(policy_source, "POLL_SECONDS", 3600)
    scene = Scene(tmp_path)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(scene.source.run())
        await asyncio.sleep(0)
        scene.path.write_text(policy_file(rule("all", "latency")))
        os.kill(os.getpid(), signal.SIGHUP)
        await scene.log.wait_named("policy.loaded")
        running.cancel()
    assert scene.source.current.gate_names == {"latency"}
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


async def test_a_file_that_changes_is_noticed_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_source, "POLL_SECONDS", 0.01)
    scene = Scene(tmp_path)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(scene.source.run())
        scene.path.write_text(policy_file(rule("all", "latency")))
        await scene.log.wait_named("policy.loaded")
        running.cancel()
    assert scene.source.current.gate_names == {"latency"}


async def test_half_a_file_is_not_in_force(tmp_path: Path) -> None:
    """It is YAML too, and asks for fewer gates."""
    scene, whole = Scene(tmp_path), policy_file(rule("all", "smoke"), rule("more", "latency"))
    half = whole.rindex("- {name")
    scene.path.write_text(whole[:half] + "# half\n")
    await scene.source.reload(asked=False)
    scene.path.write_text(whole)
    await scene.looked_at()
    assert scene.events == ["policy.loaded"]
    assert scene.source.current.gate_names == {"smoke", "latency"}


async def test_a_touched_file_says_nothing_new(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    os.utime(scene.path, ns=(0, 0))
    await scene.looked_at()
    assert scene.events == []


def test_at_the_start_a_wrong_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no YAML"):
        Scene(tmp_path, "rules: [")
    with pytest.raises(SettingsError, match="cannot be read"):
        PolicySource(settings_of(tmp_path / "none"), clock=MovableClock(), log=EventLog())


def test_the_policy_in_force_in_few_words(tmp_path: Path) -> None:
    settings = settings_of(gate=["smoke=900s", "latency=10m"])
    assert describe(settings, settings.read_policy()) == "smoke=15m,latency=10m"
    assert Scene(tmp_path).source.describe().startswith(f"{tmp_path / 'policy.yaml'} (1 rule, digest ")
    settings = settings_of(gate=[], allow_ungated=True)
    assert describe(settings, settings.read_policy()) == "none"

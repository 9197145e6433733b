"""The policy in force, and where it comes from: read again on SIGHUP, and once its file has changed and holds still.

The rule: whoever needs the policy reads `current` when a call begins, and goes on with that one. A file that is wrong,
or would change what cannot be changed while a proxy runs, leaves the policy in force as it is, and says so until it is
right again.
"""

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from greenroom.changing_files import ChangingFiles
from greenroom.core.policy import Policy
from greenroom.core.templates import GatedKeys
from greenroom.durations import format_duration
from greenroom.errors import SettingsError
from greenroom.policy_file import PolicyFileError
from greenroom.settings import Settings
from greenroom.yaml_files import read_text

POLL_SECONDS = 1.0
"""A new file is in force after two of them at most."""


@dataclass(frozen=True, slots=True)
class Refused:
    """What the file said, and why that is not in force."""

    why: str
    time: datetime


@dataclass(frozen=True, slots=True)
class _Said:
    """What the file was found to say: its text, or why it could not be read."""

    text: str = ""
    error: PolicyFileError | None = None

    def is_as(self, other: "_Said") -> bool:
        return (self.text, str(self.error)) == (other.text, str(other.error))


class PolicySource:
    """Holds the policy that a proxy goes by. SettingsError as of Settings.read_policy where there is none at first."""

    def __init__(self, settings: Settings, *, clock: Callable[[], datetime], log: Any) -> None:
        self._settings, self._clock, self._log = settings, clock, log
        files = [] if settings.policy is None else [settings.policy]
        self._files = ChangingFiles(files, lambda: _read(settings))
        self._seen = _Said() if settings.policy is None else _read(settings)
        self.current = settings.read_policy() if settings.policy is None else _policy_of(settings, self._seen)
        self.loaded = clock()
        self.refused: Refused | None = None
        self.failures = 0
        self._told: list[Callable[[Policy], None]] = []
        # What was read from a pipe cannot be read again, and opening one can take for ever.
        self._can_be_read_again = settings.policy is not None and settings.policy.is_file()

    @property
    def file(self) -> str:
        """The file; empty where the gates were given without one."""
        return str(self._settings.policy or "")

    def on_change(self, tell: Callable[[Policy], None]) -> None:
        """From here on `tell` hears of each new policy, once it is in force."""
        self._told.append(tell)

    def describe(self) -> str:
        """The policy in force in few words."""
        return describe(self._settings, self.current)

    async def run(self) -> None:
        """Follows the file and SIGHUP until cancelled; without a file SIGHUP keeps its meaning, which is to end."""
        if not self._can_be_read_again:
            return
        loop, hung_up = asyncio.get_running_loop(), asyncio.Event()
        loop.add_signal_handler(signal.SIGHUP, hung_up.set)
        try:
            while True:
                asked = await _is_set(hung_up, POLL_SECONDS)
                hung_up.clear()
                await self.reload(asked=asked)
        finally:
            loop.remove_signal_handler(signal.SIGHUP)

    async def reload(self, *, asked: bool) -> None:
        """Reads the file again: at once if somebody asked, else what changed in it and has held still since."""
        said = await asyncio.to_thread(self._files.read_now if asked else self._files.look)
        if said is None or (said.is_as(self._seen) and not asked):
            return
        self._seen = said
        try:
            # In a thread: a large file takes seconds to parse, and calls go on meanwhile.
            policy = await asyncio.to_thread(_policy_of, self._settings, said)
            _check_change(self._settings, self.current.gated_keys(), policy.gated_keys())
        except SettingsError as error:
            self._refuse(str(error))
        else:
            self._take(policy)

    def _refuse(self, why: str) -> None:
        self.failures += 1
        self.refused = Refused(why, self._clock())
        self._log.error("policy.refused", why=why, kept=self.describe())

    def _take(self, policy: Policy) -> None:
        was, self.refused = self.current, None
        if policy.digest == was.digest:
            self._log.info("policy.unchanged", policy=self.describe())
            return
        self.current, self.loaded = policy, self._clock()
        self._log.info("policy.loaded", policy=self.describe(), digest=policy.digest, was=was.digest)
        if not policy.rules:
            self._log.warning("nothing.is.held", why="no rule, and --allow-ungated")
        for tell in self._told:
            tell(policy)


def describe(settings: Settings, policy: Policy) -> str:
    """Which policy is in force, in few words."""
    if settings.policy is None:
        gates = ",".join(f"{name}={format_duration(seconds)}" for name, seconds in settings.gate.items())
        return gates or "none"
    rules = len(policy.rules)
    return f"{settings.policy} ({rules} rule{'' if rules == 1 else 's'}, digest {policy.digest[:8]})"


def _read(settings: Settings) -> _Said:
    assert settings.policy is not None, "there is a file"
    try:
        return _Said(read_text(settings.policy))
    except PolicyFileError as error:
        return _Said(error=error)


def _policy_of(settings: Settings, said: _Said) -> Policy:
    if said.error is not None:
        raise settings.about_the_policy(said.error)
    return settings.policy_of(said.text)


def _check_change(settings: Settings, now: GatedKeys, then: GatedKeys) -> None:
    """SettingsError where other keys would be gated: other proxies would let through what is not."""
    if now != then:
        raise SettingsError(
            f"--policy '{settings.policy}': gates {_shapes(then)}, and this proxy {_shapes(now)}: which keys are gated "
            "cannot change while proxies run; stop all of them, and start them with the new file",
            field="policy",
        )


def _shapes(gated_keys: GatedKeys) -> str:
    return " and ".join(template.pattern for template in gated_keys.templates) or "nothing"


async def _is_set(event: asyncio.Event, timeout_seconds: float) -> bool:
    """Whether it was set within that time."""
    try:
        async with asyncio.timeout(timeout_seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True

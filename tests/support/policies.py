"""What a proxy knows of its own policy, made as the program makes it, and put into its tests' hands."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from greenroom.control.policy_in_force import PolicyInForce
from greenroom.policy_source import PolicySource
from greenroom.settings import Settings, load_settings
from greenroom.store.presence import Presence
from greenroom.store.upstream import Upstream


def settings_of(file: Path | None = None, **more: object) -> Settings:
    """Settings with that policy file; without one every instance needs `smoke`."""
    told = {"gate": ["smoke=900s"]} if file is None else {"policy": str(file)}
    return load_settings({"upstream": ["http://127.0.0.1:2379"], **told, **more})


def policy_in_force(
    upstream: Upstream, *, log: Any, file: Path | None = None, clock: Callable[[], datetime] | None = None
) -> PolicyInForce:
    """A proxy's policy and its presence, which is not registered."""
    source = PolicySource(settings_of(file), clock=clock or _now, log=log)
    presence = Presence(
        upstream,
        policy_digest=source.current.digest,
        templates_digest=source.current.gated_keys().digest,
        address="127.0.0.1:2390",
        host="node1",
        version="test",
        log=log,
    )
    return PolicyInForce(source, presence)


def rule(name: str = "", *gates: str, **selector: str) -> str:
    """A rule of a policy file, in one line."""
    wanted = ", ".join(f"{gate}: {{timeout_seconds: 600}}" for gate in gates or ("smoke",))
    selects = ", ".join(f"{attribute}: {glob!r}" for attribute, glob in selector.items())
    return f"- {{name: {name!r}, selector: {{{selects}}}, gates: {{{wanted}}}}}"


def policy_file(*rules: str) -> str:
    """The text of a policy file with these rules."""
    return "\n".join(("rules:", *rules, ""))


def _now() -> datetime:
    return datetime.now(UTC)

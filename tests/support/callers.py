"""Callers of the control API for tests: the access file's text, and admissions with what it says."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import yaml

from greenroom.access.admission import Admission
from greenroom.access.entries import parse_entries
from greenroom.access.known import KnownCallers
from greenroom.access.tokens import digest_of
from tests.support.control_side import EventLog, MovableClock

TOKENS = {
    name: f"greenroom_{name}-{'x' * 30}" for name in ("ann", "ci", "tiny-ci", "grafana", "late", "next-ci", "stranger")
}
"""By the name of the caller in ACCESS; `next-ci` is the second one of `ci`, and nobody has that of `stranger`."""


@dataclass
class Known:
    """Callers in force, as the access file gives them."""

    known: KnownCallers


def bearer(name: str) -> str:
    """The Authorization header of a caller."""
    return f"Bearer {TOKENS[name]}"


def access_text(*without: str, **more: dict[str, Any]) -> str:
    """An access file with one caller of each role; some have limits, and `late` has expired."""
    callers: dict[str, dict[str, Any]] = {
        "ann": {"role": "operator"},
        "ci": {"role": "reporter", "gates": ["smoke"]},
        "tiny-ci": {"role": "reporter", "gates": ["*"], "selector": {"model": "tiny*", "namespace": "dynamo"}},
        "grafana": {"role": "viewer"},
        "late": {"role": "operator", "expires": datetime.fromisoformat("2020-01-01T00:00:00+00:00")},
        **more,
    }
    entries = []
    for name, fields in callers.items():
        if name not in without:
            digests = [digest_of(TOKENS[known]) for known in TOKENS if known in (name, f"next-{name}")]
            entries.append({"name": name, **({"token_sha256": digests} if digests else {}), **fields})
    return yaml.safe_dump({"callers": entries}, sort_keys=False)


def known_callers(text: str = "") -> KnownCallers:
    """Those of an access file."""
    return KnownCallers(parse_entries(text or access_text()))


def admission(text: str = "", log: EventLog | None = None, **options: Any) -> Admission:
    """One that knows the callers of an access file."""
    return Admission(Known(known_callers(text)), clock=MovableClock(), log=log or EventLog(), **options)


def open_admission() -> Admission:
    """One without an access file."""
    return Admission(None, clock=MovableClock(), log=EventLog())

"""`check models`: the frontend lists the model.

It catches a worker whose card a frontend does not take. It asks the worker itself nothing.
"""

from typing import Any

from greenroom.errors import CheckFailed
from greenroom.gates.checks.asking import Asker, excerpt

MAX_SHOWN = 8
"""Models that are told where the one is missing: more are a list of somebody else's."""


def check_models(asker: Asker, model: str) -> str:
    """Passes where the list has the model; CheckFailed says what it has."""
    listed = _listed(asker.get("/models"))
    if model not in listed:
        shown = ", ".join(excerpt(name) for name in listed[:MAX_SHOWN]) or "none"
        more = f" and {len(listed) - MAX_SHOWN} more" if len(listed) > MAX_SHOWN else ""
        raise CheckFailed(f"{asker.place.url('/models')} does not list {model}; listed: {shown}{more}")
    return f"{model} is listed"


def _listed(answer: Any) -> list[str]:
    entries = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(entries, list):
        raise CheckFailed("the answer is no list of models: it has no `data`")
    names = (entry.get("id") for entry in entries if isinstance(entry, dict))
    return [name for name in names if isinstance(name, str)]

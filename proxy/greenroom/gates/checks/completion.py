"""`check completion`: one chat must come back with a message in which something is said.

It catches a worker that answers nothing, or errors at HTTP 200, and a parser that swallows all of a message. It does
not catch one that says nonsense: for that there is `golden`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from greenroom.errors import CheckFailed
from greenroom.gates.checks.asking import Asker, excerpt
from greenroom.gates.checks.chats import TOOL, Part, Said, answered, request, user

PROMPT: Final = "Say in one sentence that you are ready."
TOOL_PROMPT: Final = "Call the tool report_ready to say that you are ready."


@dataclass(frozen=True, slots=True)
class Completion:
    """What to ask, and which parts of the message count: one of them must say something."""

    model: str
    counts: Sequence[Part]
    prompt: str
    max_tokens: int
    stream: bool


def check_completion(asker: Asker, asked: Completion) -> str:
    """Passes where a part that counts says something; CheckFailed tells which others do."""
    tools = {"tools": [TOOL], "tool_choice": "auto"} if Part.TOOL_CALLS in asked.counts else {}
    body = request(asked.model, user(asked.prompt), asked.max_tokens, **tools)
    said = answered(asker, body, stream=asked.stream)
    counting = [part for part in asked.counts if said.has(part)]
    if not counting:
        raise CheckFailed(f"{_none_of(asked.counts)} in the message of {asked.model}{_instead(said)}")
    return f"{asked.model} says in its {counting[0]}: {_shown(said, counting[0])}"


def _none_of(counts: Sequence[Part]) -> str:
    return f"there is no {' and no '.join(counts)}"


def _instead(said: Said) -> str:
    others = [part for part in Part if said.has(part)]
    return f", only {' and '.join(others)}, which does not count here" if others else ", nor anything else"


def _shown(said: Said, part: Part) -> str:
    match part:
        case Part.CONTENT:
            return repr(excerpt(said.content))
        case Part.REASONING:
            return repr(excerpt(said.reasoning))
        case Part.TOOL_CALLS:
            return ", ".join(excerpt(f"{name}({arguments})") for name, arguments in said.tool_calls.values())

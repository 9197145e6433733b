"""Chat requests, and what their answers say: whole ones and streams of an OpenAI-compatible API.

The rule: whatever is not there, or of another type than it should be, counts as nothing said. Each check decides what
that means.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from greenroom.errors import CheckFailed
from greenroom.gates.checks.asking import Asker, excerpt_of

CHATS: Final = "/chat/completions"
TOOL: Final = {
    "type": "function",
    "function": {
        "name": "report_ready",
        "description": "Reports that the assistant is ready.",
        "parameters": {
            "type": "object",
            "properties": {"ready": {"type": "boolean", "description": "Whether it is ready."}},
            "required": ["ready"],
        },
    },
}
"""Offered where tool calls count: a model that is offered none makes none."""
BROKEN_OFF: Final = ("abort", "error")
"""Reasons to finish that no answer has which came to its end: engines say so of requests that they gave up."""


class Part(StrEnum):
    """What a message can say."""

    CONTENT = "content"
    REASONING = "reasoning"
    TOOL_CALLS = "tool-calls"


@dataclass(frozen=True, slots=True)
class Said:
    """What a message, or one event's share of it, says. `tool_calls`: their names and arguments, by their places."""

    content: str = ""
    reasoning: str = ""
    tool_calls: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    token_ids: tuple[int, ...] = ()

    @property
    def is_anything(self) -> bool:
        """Whether it carries a token of any kind."""
        return bool(self.content or self.reasoning or self.tool_calls)

    def has(self, part: Part) -> bool:
        """Whether it says something there that can be seen; a call with a name, whose arguments are a JSON object."""
        match part:
            case Part.CONTENT:
                return _is_visible(self.content)
            case Part.REASONING:
                return _is_visible(self.reasoning)
            case Part.TOOL_CALLS:
                return any(name.strip() and _is_object(arguments) for name, arguments in self.tool_calls.values())

    def and_then(self, more: "Said") -> "Said":
        """One message of two shares."""
        calls = dict(self.tool_calls)
        for place, (name, arguments) in more.tool_calls.items():
            before = calls.get(place, ("", ""))
            calls[place] = before[0] + name, before[1] + arguments
        return Said(
            self.content + more.content, self.reasoning + more.reasoning, calls, self.token_ids + more.token_ids
        )


def request(model: str, messages: Sequence[Mapping[str, Any]], max_tokens: int, **more: Any) -> dict[str, Any]:
    """The body of a chat: no sampling where a server honours that, so that an answer can be had twice."""
    return {"model": model, "messages": list(messages), "max_tokens": max_tokens, "temperature": 0, **more}


def user(text: str) -> list[dict[str, str]]:
    """The messages of a chat in which a user says one thing."""
    return [{"role": "user", "content": text}]


def answered(asker: Asker, body: dict[str, Any], *, stream: bool) -> Said:
    """The whole message that comes; CheckFailed where the answer is none."""
    if not stream:
        return whole(asker.post(CHATS, body))
    return together(event_said(event) for event in asker.events(CHATS, {**body, "stream": True}))


def whole(answer: Any) -> Said:
    """What a whole answer says; CheckFailed where it is an error, or has no choice."""
    choice = _choice(answer)
    if choice is None:
        raise CheckFailed(f"the answer has no choices: {excerpt_of(answer)}")
    return _said(choice.get("message"), _token_ids(choice, answer))


def event_said(event: Any) -> Said:
    """What one event of a stream adds; CheckFailed where it is an error."""
    choice = _choice(event)
    return Said() if choice is None else _said(choice.get("delta"), _token_ids(choice, event))


def together(shares: Iterable[Said]) -> Said:
    """The message of all events."""
    # Piece by piece would cost the square of a long stream.
    shares = list(shares)
    calls = Said()
    for share in shares:
        if share.tool_calls:
            calls = calls.and_then(Said(tool_calls=share.tool_calls))
    content, reasoning = "".join(share.content for share in shares), "".join(share.reasoning for share in shares)
    return Said(content, reasoning, calls.tool_calls, tuple(token for share in shares for token in share.token_ids))


def _choice(answer: Any) -> dict[str, Any] | None:
    """The first choice; CheckFailed for an error at HTTP 200, and where the choice says that it was given up."""
    if isinstance(answer, dict) and (error := answer.get("error") or (answer.get("object") == "error" and answer)):
        raise CheckFailed(f"the answer is an error: {excerpt_of(error)}")
    choices = answer.get("choices") if isinstance(answer, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict):
        return None
    if (reason := first.get("finish_reason")) in BROKEN_OFF:
        raise CheckFailed(f"the answer was given up: its finish_reason is {reason!r}")
    return first


def _said(message: Any, token_ids: tuple[int, ...]) -> Said:
    if not isinstance(message, dict):
        return Said(token_ids=token_ids)
    reasoning = _text(message.get("reasoning_content")) or _text(message.get("reasoning"))
    return Said(_text(message.get("content")), reasoning, _calls(message.get("tool_calls")), token_ids)


def _calls(calls: Any) -> dict[int, tuple[str, str]]:
    found = {}
    for place, call in enumerate(calls if isinstance(calls, list) else ()):
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            index = call.get("index")
            at = index if isinstance(index, int) else place
            found[at] = _text(function.get("name")), _text(function.get("arguments"))
    return found


def _token_ids(choice: dict[str, Any], answer: Any) -> tuple[int, ...]:
    """As vLLM gives them in a choice, and Dynamo's frontend beside the choices."""
    nvext = answer.get("nvext")
    dynamos = nvext.get("completion_token_ids") if isinstance(nvext, dict) else None
    ids = choice.get("token_ids") or dynamos
    return tuple(ids) if isinstance(ids, list) and all(type(token) is int for token in ids) else ()


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _is_visible(text: str) -> bool:
    """Whether there is more in it than blanks, control characters and such as have no width."""
    return any(character.isprintable() and not character.isspace() for character in text)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

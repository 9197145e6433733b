"""`check golden`: prompts whose answers are known must be answered so again.

It catches what is silent: a wrong quantisation, a broken chat template, a bad GPU, at HTTP 200. Everything is asked
without sampling (temperature 0) and with one seed; a server that samples anyway cannot be checked so.
"""

import re
from collections.abc import Sequence
from typing import Any

from greenroom.errors import CheckFailed, CheckInconclusive
from greenroom.gates.checks.asking import Asker, excerpt
from greenroom.gates.checks.chats import Said, answered, request
from greenroom.gates.checks.golden_file import GoldenFile, Prompt

AROUND_CHARACTERS = 24
"""Of a text on both sides of its first difference."""
AROUND_TOKENS = 3


def check_golden(asker: Asker, model: str, golden: GoldenFile) -> str:
    """Passes where each prompt is answered as expected; CheckFailed names the first that is not, and where."""
    for name, prompt in golden.named():
        said = answered(asker, _body(model, golden, prompt), stream=False)
        _compare(f"prompt {excerpt(name)!r}", prompt, said)
    count = len(golden.prompts)
    return f"{model} answers {'the one prompt' if count == 1 else f'all {count} prompts'} as expected"


def _body(model: str, golden: GoldenFile, prompt: Prompt) -> dict[str, Any]:
    more = {**golden.extra, "seed": golden.seed}
    if prompt.token_ids is not None:
        for field, value in golden.token_ids_from.asking.items():
            given = more.get(field)
            more[field] = {**value, **given} if isinstance(value, dict) and isinstance(given, dict) else value
    return request(model, prompt.chat, prompt.max_tokens or golden.max_tokens, **more)


def _compare(name: str, prompt: Prompt, said: Said) -> None:
    if prompt.regex is not None:
        if not re.search(prompt.regex, said.content):
            raise CheckFailed(f"{name}: the answer does not match {excerpt(prompt.regex)}: {excerpt(said.content)!r}")
    elif prompt.text is not None:
        if (at := first_difference(prompt.text, said.content)) is not None:
            raise CheckFailed(f"{name}: {_texts_differ(prompt.text, said.content, at)}")
    elif prompt.token_ids is not None:
        if not said.token_ids:
            raise CheckInconclusive(f"{name}: the answer has no token ids; `token_ids_from` says whom to ask for them")
        if (at := first_difference(prompt.token_ids, said.token_ids)) is not None:
            raise CheckFailed(f"{name}: {_tokens_differ(prompt.token_ids, said.token_ids, at)}")


def first_difference(expected: Sequence[Any], got: Sequence[Any]) -> int | None:
    """Where two sequences differ first, or one of them ends; None where they are equal."""
    for at, (one, other) in enumerate(zip(expected, got, strict=False)):
        if one != other:
            return at
    return None if len(expected) == len(got) else min(len(expected), len(got))


def _texts_differ(expected: str, got: str, at: int) -> str:
    return f"differs at character {at + 1}: expected {_around(expected, at)} and got {_around(got, at)}"


def _around(text: str, at: int) -> str:
    begin, end = max(0, at - AROUND_CHARACTERS), at + AROUND_CHARACTERS
    cut = text[begin:end]
    return f"{'…' if begin else ''}{cut!r}{'…' if end < len(text) else ''}"


def _tokens_differ(expected: Sequence[int], got: Sequence[int], at: int) -> str:
    return f"differs at token {at + 1}: expected {_tokens(expected, at)} and got {_tokens(got, at)}"


def _tokens(tokens: Sequence[int], at: int) -> str:
    begin = max(0, at - AROUND_TOKENS)
    shown = ", ".join(map(str, tokens[begin : at + AROUND_TOKENS]))
    return f"[{'…, ' if begin else ''}{shown}{', …' if at + AROUND_TOKENS < len(tokens) else ''}]"

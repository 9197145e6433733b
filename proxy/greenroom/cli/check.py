"""`greenroom check …`: the built-in checks, for gates that run commands, and for people at a prompt.

The rule: one line says what became of it, and the exit code is 0 passed, 1 failed, 75 inconclusive, 2 called wrongly.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from greenroom.cli.check_card import card
from greenroom.cli.check_options import (
    AllowRemote,
    BaseUrl,
    MaxTokens,
    Model,
    Timeout,
    asker_of,
    concluded,
    must_be_given,
    parts_of,
    seconds_of,
)
from greenroom.cli.check_serve import serve
from greenroom.errors import SettingsError
from greenroom.gates.environment import Variable

if TYPE_CHECKING:
    from greenroom.gates.checks.latency import Limit

FEWEST_REQUESTS: Final = 8
"""With fewer a spread says nothing."""
MOST_REQUESTS: Final = 10_000
MOST_AT_ONCE: Final = 256

app = typer.Typer(
    no_args_is_help=True,
    help="Built-in checks of a worker. Exit codes: 0 passed, 1 failed, 75 inconclusive, 2 called wrongly.",
)
Milliseconds = float | None


def completion(
    counts: Annotated[
        str,
        typer.Option("--counts", metavar="PART,…", help="Which parts count: content, reasoning, tool-calls."),
    ] = "content",
    stream: Annotated[bool, typer.Option("--stream", help="Have the answer streamed.")] = False,
    prompt: Annotated[
        str, typer.Option("--prompt", metavar="TEXT", help="What to say. (default: a short request)")
    ] = "",
    max_tokens: MaxTokens = 256,
    base_url: BaseUrl = "",
    model: Model = "",
    timeout: Timeout = "60s",
    allow_remote: AllowRemote = False,
) -> None:
    """One chat must come back with a message in which something is said."""
    from greenroom.gates.checks.chats import Part
    from greenroom.gates.checks.completion import PROMPT, TOOL_PROMPT, Completion, check_completion

    parts, seconds = parts_of(counts), seconds_of(timeout)
    said = prompt or (TOOL_PROMPT if Part.TOOL_CALLS in parts else PROMPT)
    asked = Completion(must_be_given("--model", model, Variable.MODEL), parts, said, max_tokens, stream)
    asker = asker_of(base_url, seconds, allow_remote=allow_remote)
    concluded("completion", lambda: check_completion(asker, asked), seconds)


def models(
    base_url: BaseUrl = "", model: Model = "", timeout: Timeout = "10s", allow_remote: AllowRemote = False
) -> None:
    """The frontend must list the model."""
    from greenroom.gates.checks.models import check_models

    named, seconds = must_be_given("--model", model, Variable.MODEL), seconds_of(timeout)
    asker = asker_of(base_url, seconds, allow_remote=allow_remote)
    concluded("models", lambda: check_models(asker, named), seconds)


def golden(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Prompts and their answers, in YAML or JSON.")],
    base_url: BaseUrl = "",
    model: Model = "",
    timeout: Timeout = "10m",
    allow_remote: AllowRemote = False,
) -> None:
    """Prompts whose answers are known must be answered so again."""
    from greenroom.gates.checks.golden import check_golden
    from greenroom.gates.checks.golden_file import load_golden
    from greenroom.yaml_files import YamlFileError

    try:
        golden_file = load_golden(file)
    except YamlFileError as error:
        raise SettingsError(f"FILE '{file}': {error}") from error
    named, seconds = must_be_given("--model", model, Variable.MODEL), seconds_of(timeout)
    asker = asker_of(base_url, seconds, allow_remote=allow_remote)
    concluded("golden", lambda: check_golden(asker, named, golden_file), seconds)


def latency(
    ttft_p50: Annotated[Milliseconds, typer.Option("--ttft-p50", metavar="MS", help="To first token, median.")] = None,
    ttft_p99: Annotated[Milliseconds, typer.Option("--ttft-p99", metavar="MS", help="Slowest of 100.")] = None,
    itl_p50: Annotated[Milliseconds, typer.Option("--itl-p50", metavar="MS", help="Between tokens, median.")] = None,
    itl_p99: Annotated[Milliseconds, typer.Option("--itl-p99", metavar="MS", help="Longest of 100.")] = None,
    requests: Annotated[
        int, typer.Option("--requests", metavar="N", min=FEWEST_REQUESTS, max=MOST_REQUESTS, help="How many count.")
    ] = 32,
    concurrency: Annotated[
        int, typer.Option("--concurrency", metavar="N", min=1, max=MOST_AT_ONCE, help="How many at once.")
    ] = 1,
    warm_up: Annotated[
        int, typer.Option("--warm-up", metavar="N", min=0, max=MOST_REQUESTS, help="Before, and not counted.")
    ] = 1,
    max_spread: Annotated[
        float,
        typer.Option("--max-spread", metavar="RATIO", min=0, help="Between requests; over it a miss is no failure."),
    ] = 0.5,
    prompt: Annotated[str, typer.Option("--prompt", metavar="TEXT", help="What to say. (default: a story)")] = "",
    max_tokens: MaxTokens = 64,
    base_url: BaseUrl = "",
    model: Model = "",
    timeout: Timeout = "10m",
    allow_remote: AllowRemote = False,
) -> None:
    """Tokens must come as fast as the limits say; at least one limit is needed."""
    from greenroom.gates.checks.latency import PROMPT, Latency, check_latency

    limits = _limits(ttft_p50=ttft_p50, ttft_p99=ttft_p99, itl_p50=itl_p50, itl_p99=itl_p99)
    named, seconds = must_be_given("--model", model, Variable.MODEL), seconds_of(timeout)
    asked = Latency(named, prompt or PROMPT, max_tokens, requests, concurrency, warm_up, limits, max_spread)
    asker = asker_of(base_url, seconds, allow_remote=allow_remote)
    concluded("latency", lambda: check_latency(asker, asked), seconds)


def _limits(**given: float | None) -> "list[Limit]":
    from greenroom.gates.checks.latency import BETWEEN, FIRST, Limit

    quantities = {"ttft": FIRST, "itl": BETWEEN}
    limits = []
    for name, value in given.items():
        if value is None:
            continue
        if not 0 < value < float("inf"):
            raise SettingsError(f"--{name.replace('_', '-')} '{value:g}': must be more than 0 ms")
        quantity, _, percent = name.partition("_p")
        limits.append(Limit(quantities[quantity], int(percent), value))
    if not limits:
        raise SettingsError("no limit is given: --ttft-p50, --ttft-p99, --itl-p50 or --itl-p99, in ms")
    return limits


for _check in (completion, models, golden, latency, card, serve):
    app.command()(_check)

"""What the built-in checks' options have in common, and how a check ends on the command line.

The rule: what a runner tells in the environment needs no option, and an option that is given counts for more. The
checks themselves are imported when they are needed: the other commands should start fast.
"""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from greenroom.cli.layout import printable
from greenroom.cli.options import complain, duration, let_go_of_stdout
from greenroom.errors import SettingsError
from greenroom.gates.environment import Variable

if TYPE_CHECKING:
    from greenroom.gates.checks.asking import Asker
    from greenroom.gates.checks.chats import Part
    from greenroom.gates.checks.ending import Ending

LAST_RESORT_SECONDS: Final = 2.0
"""Beyond its time: what no signal comes through to, as a name that is not resolved, ends with the process."""
SILENCE_SHARE: Final = 0.9
"""Of a check's time: who says nothing for so long is told of by name, before the time is up."""
LARGEST_TOKENS: Final = 100_000
WHO_SETS_IT: Final = " (`greenroom gates run --frontend` sets it for its gates)"

BaseUrl = Annotated[
    str,
    typer.Option("--base-url", envvar=Variable.BASE_URL, metavar="URL", help="As http://127.0.0.1:8000/v1."),
]
Model = Annotated[str, typer.Option("--model", envvar=Variable.MODEL, metavar="NAME", help="The model to ask for.")]
Timeout = Annotated[str, typer.Option("--timeout", metavar="DURATION", help="For the whole check.")]
AllowRemote = Annotated[bool, typer.Option("--allow-remote", help="Ask other machines than this one too.")]
MaxTokens = Annotated[
    int, typer.Option("--max-tokens", metavar="N", min=1, max=LARGEST_TOKENS, help="Of each answer at most.")
]


def asker_of(base_url: str, timeout_seconds: float, *, allow_remote: bool) -> "Asker":
    """Who asks there; SettingsError where it is no URL, or may not be asked."""
    from greenroom.gates.checks.asking import Asker
    from greenroom.gates.checks.place import Place

    given = must_be_given("--base-url", base_url, Variable.BASE_URL, note=WHO_SETS_IT)
    try:
        return Asker(Place.of_url(given, allow_remote=allow_remote), SILENCE_SHARE * timeout_seconds)
    except ValueError as error:
        raise SettingsError(f"--base-url '{given}': {error}") from error


def must_be_given(option: str, text: str, variable: Variable, *, note: str = "") -> str:
    """The text; SettingsError where it is blank."""
    if not text.strip():
        raise SettingsError(f"{option} is not given, and {variable} is not set{note}")
    return text.strip()


def seconds_of(timeout: str) -> float:
    """SettingsError where it is no duration."""
    return duration("--timeout", timeout)


def parts_of(counts: str) -> "list[Part]":
    """From `content,tool-calls`; SettingsError."""
    from greenroom.gates.checks.chats import Part

    names = [name.strip() for name in counts.split(",")]
    unknown = [name for name in names if name not in list(Part)]
    if unknown:
        raise SettingsError(f"--counts '{counts}': {unknown[0]!r} is none of {', '.join(Part)}")
    return [Part(name) for name in dict.fromkeys(names)]


def concluded(name: str, check: Callable[[], str], timeout_seconds: float) -> NoReturn:
    """Runs the check, says what became of it in one line, and ends the command with its code."""
    from greenroom.gates.checks.ending import ended, not_over

    give_up = threading.Timer(timeout_seconds + LAST_RESORT_SECONDS, _give_up, [not_over(name, timeout_seconds)])
    give_up.daemon = True
    give_up.start()
    try:
        ending = ended(name, check, timeout_seconds)
    finally:
        give_up.cancel()
    raise typer.Exit(_said(ending))


def _said(ending: "Ending") -> int:
    """The exit code is what counts: of a sound worker nobody may hear otherwise because nobody reads the line."""
    if ending.code:
        with suppress(OSError):
            complain(ending.line)
        return int(ending.code)
    try:
        print(printable(ending.line), flush=True)
    except OSError:
        let_go_of_stdout()
    return 0


def _give_up(ending: "Ending") -> None:
    try:
        _said(ending)
    finally:
        os._exit(int(ending.code))

"""What commands have in common: which proxy to ask, which instance is meant, how to answer."""

import os
import shlex
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from greenroom.addresses import DEFAULT_CONTROL
from greenroom.cli.client import ControlClient
from greenroom.cli.control_place import files_again, place_of
from greenroom.cli.layout import printable
from greenroom.client.callers import in_the_name_of, myself
from greenroom.client.place import CONTROL_VARIABLE, TOKEN_FILE_VARIABLE, TOKEN_VARIABLE
from greenroom.durations import format_duration, parse_duration
from greenroom.errors import SettingsError

Answer = TypeVar("Answer")

LONGEST_SECONDS = 366 * 24 * 3600.0
"""A year: longer is a typing error, and at some point more than protobuf can say."""

_STYLES = {
    "yellow": ("HELD", "pending", "inconclusive", "error", "no"),
    "green": ("RELEASED", "passed", "overridden", "yes"),
    "red": ("REJECTED", "failed"),
    "magenta": ("WITHDRAWN",),
}


class OutputFormat(StrEnum):
    """For people, or for programs."""

    TABLE = "table"
    JSON = "json"


Control = Annotated[
    str,
    typer.Option(
        "--control", envvar=CONTROL_VARIABLE, metavar="HOST:PORT", help="The proxy's control port; or its https:// URL."
    ),
]
TokenFile = Annotated[
    str | None,
    typer.Option(
        "--token-file",
        envvar=TOKEN_FILE_VARIABLE,
        metavar="FILE",
        help=f"Its one line says who you are, where --access asks. Or {TOKEN_VARIABLE}.",
    ),
]
Output = Annotated[OutputFormat, typer.Option("--output", "-o", help="For people, or stable JSON for programs.")]
ByAddress = Annotated[
    str | None, typer.Option("--address", metavar="HOST:PORT", help="The instance that serves there, instead of ID.")
]
ByModel = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="The instance that has this model, instead of ID.")
]


def connect(control: str, token_file: str | None = None) -> ControlClient:
    """A client of the proxy that the option names; SettingsError where it is no address, its files or token no good."""
    return ControlClient.at(place_of(control, token_file))


def named(given: str | None, client: ControlClient) -> str:
    """Who is said to be asking: the name that was given; else nobody where the proxy knows by itself, or user@host."""
    return readable(given or ("" if client.is_known else myself()))


def in_own_name(given: str | None, client: ControlClient, send: Callable[[str], Answer]) -> Answer:
    """A call in the name that `named` gives; as user@host too, where the proxy does not know who it is after all."""
    return in_the_name_of(named(given, client), send)


def duration(option: str, text: str) -> float:
    """Seconds, a year's at most; SettingsError naming the option."""
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise SettingsError(f"{option} '{text}': {error}") from error
    if seconds > LONGEST_SECONDS:
        raise SettingsError(f"{option} '{text}': is longer than {format_duration(LONGEST_SECONDS)}")
    return seconds


def readable(text: str) -> str:
    """A text of the command line as UTF-8 can say it: the end of some output, cut off, can begin within a letter."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def control_again(control: str, token_file: str | None = None) -> str:
    """What a printed command needs to reach the same proxy; nothing where it does anyway, in the same shell."""
    without_option = os.environ.get(CONTROL_VARIABLE) or DEFAULT_CONTROL
    place = "" if control == without_option else f" --control {shlex.quote(control)}"
    place += files_again(control)
    is_told = token_file is None or token_file == os.environ.get(TOKEN_FILE_VARIABLE)
    return place if is_told else f"{place} --token-file {shlex.quote(str(token_file))}"


def console() -> Console:
    """Standard output, coloured on a terminal only."""
    return Console(file=sys.stdout, highlight=False, soft_wrap=True)


def say(*lines: str, to: Console | None = None) -> None:
    """Lines as they are, the words of states in their colours where there are colours."""
    (to or console()).print(painted(*lines))


def complain(text: str) -> None:
    """One line on standard error, whatever is in it."""
    print(printable(" ".join(text.splitlines())), file=sys.stderr, flush=True)


def let_go_of_stdout() -> None:
    """Nobody reads it. Python would complain once more when it flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def painted(*lines: str) -> Text:
    """The words of states in their colours."""
    painted_text = Text("\n".join(map(printable, lines)))
    for style, words in _STYLES.items():
        painted_text.highlight_regex(rf"\b(?:{'|'.join(words)})\b", style)
    return painted_text

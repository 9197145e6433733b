"""What commands have in common: which proxy to ask, which instance is meant, how to answer."""

import getpass
import os
import shlex
import socket
import sys
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from greenroom.addresses import DEFAULT_CONTROL, Address
from greenroom.cli.client import ControlClient
from greenroom.cli.layout import printable
from greenroom.durations import parse_duration
from greenroom.errors import SettingsError

CONTROL_VARIABLE = "GREENROOM_CONTROL"

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
    str, typer.Option("--control", envvar=CONTROL_VARIABLE, metavar="HOST:PORT", help="The proxy's control port.")
]
Output = Annotated[OutputFormat, typer.Option("--output", "-o", help="For people, or stable JSON for programs.")]
ByAddress = Annotated[
    str | None, typer.Option("--address", metavar="HOST:PORT", help="The instance that serves there, instead of ID.")
]
ByModel = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="The instance that has this model, instead of ID.")
]


def connect(control: str) -> ControlClient:
    """A client of the proxy that the option names; SettingsError where it is no address."""
    try:
        return ControlClient(Address.parse(control))
    except ValueError as error:
        raise SettingsError(f"--control '{control}': {error}") from error


def duration(option: str, text: str) -> float:
    """Seconds; SettingsError naming the option."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise SettingsError(f"{option} '{text}': {error}") from error


def myself() -> str:
    """Who is asking, as user@host, for the trail."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def control_again(control: str) -> str:
    """What a printed command needs to reach the same proxy; nothing where it does anyway, in the same shell."""
    without_option = os.environ.get(CONTROL_VARIABLE) or DEFAULT_CONTROL
    return "" if control == without_option else f" --control {shlex.quote(control)}"


def console() -> Console:
    """Standard output, coloured on a terminal only."""
    return Console(file=sys.stdout, highlight=False, soft_wrap=True)


def say(text: str, to: Console | None = None) -> None:
    """Lines as they are, the words of states in their colours where there are colours."""
    (to or console()).print(painted(text))


def painted(text: str) -> Text:
    """The words of states in their colours."""
    painted_text = Text(printable(text))
    for style, words in _STYLES.items():
        painted_text.highlight_regex(rf"\b(?:{'|'.join(words)})\b", style)
    return painted_text

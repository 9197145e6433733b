"""Where the control API is asked: an address, and with https:// the files by which both sides know each other.

The rule: every command that has --control has --control-ca, --control-cert and --control-key, and none of them has to
do anything for it: they are added here, and come with the address.
"""

import functools
import inspect
import os
import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Final

import typer

from greenroom.client.place import CONTROL_VARIABLE, Place, place_from_environment

OPTION: Final = "--control"
_HELP: Final = {
    "ca": "The CAs that an https:// control port is verified by.",
    "cert": "A certificate of one's own, for a control port that wants one.",
    "key": "Its key.",
}


class ControlPlace(str):
    """What --control says, with the files that were given beside it, by what `_HELP` calls them."""

    files: dict[str, str]

    def __new__(cls, control: str, files: dict[str, str]) -> "ControlPlace":
        made = super().__new__(cls, control)
        made.files = files
        return made


def with_files(app: typer.Typer) -> None:
    """Adds the options to all commands of an app and of the groups in it, once they are registered."""
    for command in app.registered_commands:
        if command.callback is not None and "control" in inspect.signature(command.callback).parameters:
            command.callback = _taking_files(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            with_files(group.typer_instance)


def place_of(control: str, token_file: str | None = None) -> Place:
    """What the options say, and the variables that have none."""
    files = control.files if isinstance(control, ControlPlace) else {}
    ca, cert, key = (files.get(kind, "") for kind in _HELP)
    variables = place_from_environment()
    file = token_file or variables.token_file
    return replace(variables, control=str(control), ca=ca, cert=cert, key=key, token_file=file)


def files_again(control: str) -> str:
    """The files that a printed command must name, to be of use in the same shell; empty where there are none."""
    files = control.files if isinstance(control, ControlPlace) else {}
    told = ((kind, path) for kind, path in files.items() if os.environ.get(_variable(kind)) != path)
    return "".join(f" {OPTION}-{kind} {shlex.quote(path)}" for kind, path in told)


def _taking_files(command: Callable[..., Any]) -> Callable[..., Any]:
    known = inspect.signature(command)

    @functools.wraps(command)
    def taking_files(**given: Any) -> Any:
        files = {kind: given.pop(f"control_{kind}") for kind in _HELP}
        told = {kind: path for kind, path in files.items() if path}
        return command(**{**given, "control": ControlPlace(given["control"], told)})

    added = [
        inspect.Parameter(f"control_{kind}", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(kind))
        for kind in _HELP
    ]
    signature = known.replace(parameters=[*known.parameters.values(), *added])
    taking_files.__signature__ = signature  # type: ignore[attr-defined]  # what typer looks at
    return taking_files


def _option(kind: str) -> Any:
    option = typer.Option(f"{OPTION}-{kind}", envvar=_variable(kind), metavar="FILE", help=_HELP[kind])
    return Annotated[str | None, option]


def _variable(kind: str) -> str:
    return f"{CONTROL_VARIABLE}_{kind.upper()}"

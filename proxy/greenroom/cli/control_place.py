"""Where the control API is asked: an address, and with https:// the files by which both sides know each other.

The rule: every command that has --control has --control-ca, --control-cert and --control-key, and none of them has to
do anything for it: they are added here, and come with the address.
"""

import functools
import inspect
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import grpc
import typer

from greenroom.addresses import Address
from greenroom.errors import SettingsError

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


def address_of(control: str) -> Address:
    """From `host:port`, or a URL; SettingsError."""
    try:
        return Address.of_url(control) if "://" in control else Address.parse(control)
    except ValueError as error:
        raise SettingsError(f"{OPTION} '{control}': {error}") from error


def credentials_for(control: str, address: Address) -> grpc.ChannelCredentials | None:
    """For gRPC's channel, None for plaintext; SettingsError where the files do not fit, or are no good."""
    files = control.files if isinstance(control, ControlPlace) else {}
    if not address.is_secure:
        if files:
            raise SettingsError(f"{OPTION} '{control}': is not https://, and {_listed(files)} is given")
        return None
    if "ca" not in files:
        raise SettingsError(f"{OPTION} '{control}': needs {OPTION}-ca, the CAs that it is verified by")
    if ("cert" in files) != ("key" in files):
        raise SettingsError(f"{_listed(files)}: {OPTION}-cert and {OPTION}-key are for each other; give both")
    return _credentials(files)


def shows_certificate(control: str) -> bool:
    """Whether the proxy will see from a certificate who is calling."""
    return isinstance(control, ControlPlace) and "cert" in control.files


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
    return f"GREENROOM_CONTROL_{kind.upper()}"


def _listed(files: dict[str, str]) -> str:
    return ", ".join(f"{OPTION}-{kind} '{path}'" for kind, path in files.items())


def _credentials(files: dict[str, str]) -> grpc.ChannelCredentials:
    # Imported when they are needed: a command starts fast.
    from greenroom.tls.contexts import load_client
    from greenroom.tls.files import client_files

    certificate, key = files.get("cert"), files.get("key")
    pair = Path(certificate) if certificate else None, Path(key) if key else None
    return load_client(client_files(OPTION, Path(files["ca"]), *pair)).grpc_channel()

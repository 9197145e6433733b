"""`greenroom check serve`: runs checks for gates of the kind `url`, in an image that has what they need."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from greenroom.addresses import Address
from greenroom.cli.options import duration
from greenroom.errors import SettingsError

Checks = Mapping[str, Sequence[str]]


def serve(
    check: Annotated[
        list[str] | None,
        typer.Option("--check", metavar="NAME='COMMAND …'", help="A check and its command; repeatable."),
    ] = None,
    checks: Annotated[
        Path | None, typer.Option("--checks", metavar="FILE", help="The same in YAML: `checks: {NAME: [COMMAND, …]}`.")
    ] = None,
    listen: Annotated[str, typer.Option("--listen", metavar="HOST:PORT", help="Where to be asked.")] = "127.0.0.1:9100",
    concurrency: Annotated[
        int, typer.Option("--concurrency", metavar="N", min=1, max=256, help="Checks at once; more are refused.")
    ] = 4,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="DURATION", help="What a check may take, whoever still waits.")
    ] = "1h",
    allow_remote: Annotated[bool, typer.Option("--allow-remote", help="Listen beyond this machine.")] = False,
) -> None:
    """Runs checks on POST /validate/NAME: 200 where one exits with 0, else 500 with the end of its standard error."""
    address, seconds = _address(listen, allow_remote=allow_remote), duration("--timeout", timeout)
    asyncio.run(_served(_all(check or (), checks), address, concurrency, seconds))


async def _served(checks: Checks, address: Address, concurrency: int, timeout_seconds: float) -> None:
    # Imported when they are needed: the other checks should start fast.
    import structlog

    from greenroom.control.http import HttpServer
    from greenroom.gates.check_server import CheckServer
    from greenroom.logs import configure_logs
    from greenroom.settings import LogFormat, LogLevel
    from greenroom.stopping import stopped_by_signals

    log = structlog.get_logger()
    server = CheckServer(checks, concurrency, timeout_seconds, log, output=sys.stderr.fileno())
    http = HttpServer(server.app(), host=address.host, port=address.port, option="--listen")
    port = http.start()
    configure_logs(LogLevel.INFO, LogFormat.CONSOLE)
    with stopped_by_signals(log) as stopping:
        log.info("checks.ready", listen=str(Address(address.host, port)), checks=sorted(checks))
        try:
            await http.run()
        except asyncio.CancelledError:
            if not stopping.is_set():
                raise


def _address(listen: str, *, allow_remote: bool) -> Address:
    try:
        address = Address.parse(listen)
        if not address.is_loopback and not allow_remote:
            raise ValueError("is not this machine only; --allow-remote lets others ask too")
    except ValueError as error:
        raise SettingsError(f"--listen '{listen}': {error}") from error
    return address


def _all(given: Sequence[str], file: Path | None) -> Checks:
    from greenroom.gates.commands import load_checks, parse_check
    from greenroom.yaml_files import YamlFileError

    try:
        found = dict(load_checks(file)) if file is not None else {}
    except YamlFileError as error:
        raise SettingsError(f"--checks '{file}': {error}") from error
    for text in given:
        try:
            name, command = parse_check(text)
            if name in found:
                raise ValueError(f"there is a check {name!r} already")
        except ValueError as error:
            raise SettingsError(f"--check '{text}': {error}") from error
        found[name] = command
    if not found:
        raise SettingsError("no check is given: --check NAME='COMMAND …', or --checks FILE")
    return found

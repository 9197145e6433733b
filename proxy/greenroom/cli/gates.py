"""`greenroom gates run`: runs the checks of held instances and reports what they found. Its options."""

import os
import shlex
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand

from greenroom.addresses import Address
from greenroom.cli.control_place import place_of
from greenroom.cli.options import Control, TokenFile, duration
from greenroom.cli.rollout_holds import parse_selector
from greenroom.errors import SettingsError
from greenroom.settings import LogFormat, LogLevel

FRONTEND: Final = "--frontend"
DYNAMO: Final = "python -m dynamo.frontend --http-host 127.0.0.1 --http-port {port}"
LARGEST_PREVIEW_SECONDS: Final = 24 * 3600.0
SHORTEST_CLAIM_SECONDS, LONGEST_CLAIM_SECONDS = 5.0, 3600.0
"""What the control API takes."""

app = typer.Typer(no_args_is_help=True, help="The gate runner.")

_SELECTOR_FIELDS = ("namespace", "component", "endpoint", "model")


class _BareFrontend(TyperCommand):
    """`--frontend` by itself means Dynamo's, which an option that has a value cannot say."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_with_value(args)))


def _with_value(args: Sequence[str]) -> Iterator[str]:
    for place, word in enumerate(args):
        is_bare = word == FRONTEND and all(following.startswith("-") for following in args[place + 1 : place + 2])
        yield f"{FRONTEND}={DYNAMO}" if is_bare else word


@app.callback()
def _group() -> None:
    """The gate runner."""


@app.command(cls=_BareFrontend)
def run(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="YAML: `gates: {NAME: {exec: [COMMAND, …] | url: URL, timeout_secs: N}}`; else the same as JSON in "
            "DYN_WORKER_VALIDATION_GATES.",
        ),
    ] = None,
    hold: Annotated[
        str,
        typer.Option(
            "--hold",
            envvar="DYN_WORKER_VALIDATION_HOLD",
            metavar="card|health",
            help="What the proxy's rules must keep back; others are refused.",
        ),
    ] = "",
    selector: Annotated[
        str, typer.Option("--selector", metavar="K=GLOB,…", help="namespace, component, endpoint, model; else all.")
    ] = "",
    local: Annotated[bool, typer.Option("--local", help="Only what listens on this host.")] = False,
    local_address: Annotated[
        list[str] | None,
        typer.Option("--local-address", metavar="HOST", help="This host's address, for --local; repeatable."),
    ] = None,
    frontend: Annotated[
        str | None,
        typer.Option(
            FRONTEND,
            metavar="['COMMAND {port} {etcd_endpoints}']",
            help=f"Check through a frontend that sees the one instance only. Without a command: {DYNAMO}",
        ),
    ] = None,
    frontend_start: Annotated[
        str, typer.Option("--frontend-start", metavar="DURATION", help="How long it may take to list the model.")
    ] = "5m",
    keep_failed: Annotated[
        str, typer.Option("--keep-failed", metavar="DURATION", help="How long it stays up after a failure.")
    ] = "1h",
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="/live, /health and /metrics.")
    ] = "127.0.0.1:9345",
    runner: Annotated[
        str,
        typer.Option("--runner", metavar="NAME", help="Who claims and reports. (default: by token, or host and pid)"),
    ] = "",
    claim_ttl: Annotated[
        str, typer.Option("--claim-ttl", metavar="DURATION", help="How long a gate waits for a runner that was killed.")
    ] = "30s",
    max_runs: Annotated[
        int, typer.Option("--max-runs", metavar="N", min=1, max=10_000, help="Checks at once, over all instances.")
    ] = 64,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Gates may ask URLs beyond this machine, and https.")
    ] = False,
    log_level: Annotated[LogLevel, typer.Option("--log-level", help="debug, info, warning or error.")] = LogLevel.INFO,
    log_format: Annotated[LogFormat, typer.Option("--log-format", help="console or json.")] = LogFormat.CONSOLE,
    control: Control = "",
    token_file: TokenFile = None,
) -> None:
    """Runs the gates of held instances, beside a worker or for a fleet, until it is stopped (SIGTERM).

    A gate is a command (exit code 0 passes, 75 is inconclusive, others fail; the end of its standard error is the
    reason) or a URL that is posted to (200 passes; anything else is tried again until the time is up).
    """
    # Imported when they are needed: the other commands should start fast.
    from greenroom.cli.gates_run import RunnerSettings, run_gates
    from greenroom.core.selectors import Selector
    from greenroom.gates.frontend import FrontendSettings
    from greenroom.gates.gate_config import GATES_VARIABLE, gates_of, hold_of

    variable = os.environ.get(GATES_VARIABLE, "")
    wanted = hold_of(hold, has_gates=bool(config or variable))
    gates = gates_of(config, variable, allow_remote=allow_remote)
    if not control:
        raise SettingsError("no control address: --control HOST:PORT, or GREENROOM_CONTROL")
    if local_address and not local:
        raise SettingsError(f"--local-address '{local_address[0]}': is for --local, which is not given")
    start_seconds, keep_seconds = duration("--frontend-start", frontend_start), duration("--keep-failed", keep_failed)
    longest = max(gate.timeout_secs for gate in gates.values())
    settings = RunnerSettings(
        gates=gates,
        hold=wanted,
        selector=Selector(**_globs(selector)),
        local=local,
        local_addresses=tuple(local_address or ()),
        frontend=None
        if frontend is None
        else FrontendSettings(
            command=_command(frontend),
            start_seconds=start_seconds,
            keep_failed_seconds=keep_seconds,
            preview_seconds=min(LARGEST_PREVIEW_SECONDS, longest + start_seconds + keep_seconds),
        ),
        listen=_address(listen),
        name=runner or f"{socket.gethostname()}:{os.getpid()}",
        is_named=bool(runner),
        claim_seconds=_claim_seconds(claim_ttl),
        max_runs=max_runs,
    )
    run_gates(settings, place_of(control, token_file), log_level, log_format)


def _globs(text: str) -> dict[str, str]:
    given = parse_selector(text)
    if given.suffix:
        raise SettingsError(f"--selector '{text}': a runner selects by {', '.join(_SELECTOR_FIELDS)}, not by suffix")
    return {name: getattr(given, name) for name in _SELECTOR_FIELDS if getattr(given, name)}


def _command(text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise SettingsError(f"{FRONTEND} '{text}': is no command: {str(error).lower()}") from error
    if not any("{port}" in word for word in words[1:]):
        raise SettingsError(f"{FRONTEND} '{text}': has no {{port}} for the port that it is to listen on")
    return words


def _address(listen: str) -> Address:
    try:
        return Address.parse(listen)
    except ValueError as error:
        raise SettingsError(f"--listen '{listen}': {error}") from error


def _claim_seconds(text: str) -> float:
    seconds = duration("--claim-ttl", text)
    if not SHORTEST_CLAIM_SECONDS <= seconds <= LONGEST_CLAIM_SECONDS:
        raise SettingsError(f"--claim-ttl '{text}': is not from {SHORTEST_CLAIM_SECONDS:g}s to 1h")
    return seconds

"""Commands about instances: `greenroom instances`, `instance`, `wait`."""

import json
from datetime import UTC, datetime
from typing import Annotated

import typer

from greenroom.addresses import DEFAULT_CONTROL
from greenroom.cli import instance_details, instance_list
from greenroom.cli.choose import Wanted, choose
from greenroom.cli.options import (
    ByAddress,
    ByModel,
    Control,
    Output,
    OutputFormat,
    TokenFile,
    connect,
    console,
    control_again,
    duration,
    say,
)
from greenroom.cli.waiting import awaited, end
from greenroom.cli.watching import watch as watch_instances
from greenroom.cli.words import REJECTED, RELEASED, instance_json, state_named
from greenroom.errors import SettingsError
from greenroom.pb.control.v1.control_pb2 import INSTANCE_STATE_UNSPECIFIED, InstanceState

Id = Annotated[str | None, typer.Argument(metavar="ID", help="Any part of the id that no other instance has.")]
InState = Annotated[str | None, typer.Option("--state", metavar="STATE", help="held, released, rejected or withdrawn.")]
Goal = Annotated[str, typer.Option("--for", metavar="STATE", help="released or rejected.")]
Timeout = Annotated[str, typer.Option("--timeout", metavar="DURATION", help="Such as 60s or 5m.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Go on: redrawn on a terminal, else a line a change.")]


def instances(
    state: InState = None,
    output: Output = OutputFormat.TABLE,
    watch: Watch = False,
    control: Control = DEFAULT_CONTROL,
    token_file: TokenFile = None,
) -> None:
    """Which instances there are, in which state, and what they wait for."""
    wanted = _state("--state", state) if state else INSTANCE_STATE_UNSPECIFIED
    with connect(control, token_file) as client:
        if watch:
            watch_instances(client, wanted, output)
            return
        found = client.instances(state=wanted)
    if output is OutputFormat.JSON:
        print(json.dumps({"instances": [instance_json(one) for one in found]}, indent=2))
        return
    say(*instance_list.render(found, datetime.now(UTC), _columns()))


def instance(
    instance_id: Id = None,
    address: ByAddress = None,
    model: ByModel = None,
    output: Output = OutputFormat.TABLE,
    control: Control = DEFAULT_CONTROL,
    token_file: TokenFile = None,
) -> None:
    """One instance in full: why it is not released, and which command helps."""
    wanted = Wanted(instance_id, address, model)
    with connect(control, token_file) as client:
        found = client.instance(choose(client.instances(), wanted).name)
    if output is OutputFormat.JSON:
        print(json.dumps(instance_json(found), indent=2))
        return
    say(*instance_details.render(found, datetime.now(UTC), control_again(control, token_file)))


def wait(
    instance_id: Id = None,
    goal: Goal = "released",
    timeout: Timeout = "60s",
    address: ByAddress = None,
    model: ByModel = None,
    control: Control = DEFAULT_CONTROL,
    token_file: TokenFile = None,
) -> None:
    """Waits for an instance to appear and to be released or rejected.

    Exit code 0: it is; 1: it ended otherwise (rejected, released, or expired), or several fit; 124: not in time.
    Several that fit, whatever their states, are listed with these, and none is chosen. A proxy that does not answer
    is asked again until the time is up.
    """
    aim = _state("--for", goal)
    if aim not in (RELEASED, REJECTED):
        raise SettingsError(f"--for '{goal}': is neither released nor rejected")
    seconds = duration("--timeout", timeout)
    wanted = Wanted(instance_id, address, model)
    with connect(control, token_file) as client:
        for found in awaited(client, seconds, wanted):
            if found.state in (RELEASED, REJECTED):
                end(found, aim)


def _state(option: str, word: str) -> "InstanceState.ValueType":
    try:
        return state_named(word)
    except ValueError as error:
        raise SettingsError(f"{option} '{word}': {error}") from error


def _columns() -> int | None:
    """Of the terminal; what goes elsewhere is not bound by any width."""
    screen = console()
    return screen.width if screen.is_terminal else None

"""Commands about instances: `greenroom instances`, `instance`, `wait`."""

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from time import monotonic, sleep
from typing import Annotated

import typer

from greenroom.cli import instance_details, instance_list
from greenroom.cli.choose import NoSuchInstanceError, choose
from greenroom.cli.client import ControlClient, ControlError
from greenroom.cli.instance_list import waits_for
from greenroom.cli.options import (
    DEFAULT_CONTROL,
    ByAddress,
    ByModel,
    Control,
    Output,
    OutputFormat,
    connect,
    console,
    control_again,
    duration,
    say,
)
from greenroom.cli.watching import watch as watch_instances
from greenroom.cli.words import REJECTED, RELEASED, in_state, instance_json, state_named, state_word
from greenroom.errors import SettingsError
from greenroom.pb.control.v1.control_pb2 import INSTANCE_STATE_UNSPECIFIED, Instance, InstanceState

TIMED_OUT = 124
"""The exit code of timeout(1)."""
POLL_SECONDS = 0.3
"""How soon `wait` notices; a proxy answers from memory."""

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
) -> None:
    """Which instances there are, in which state, and what they wait for."""
    wanted = _state("--state", state) if state else INSTANCE_STATE_UNSPECIFIED
    with connect(control) as client:
        if watch:
            watch_instances(client, wanted, output)
            return
        found = client.instances(state=wanted)
    if output is OutputFormat.JSON:
        print(json.dumps({"instances": [instance_json(one) for one in found]}, indent=2))
        return
    say("\n".join(instance_list.render(found, datetime.now(UTC), _columns())))


def instance(
    instance_id: Id = None,
    address: ByAddress = None,
    model: ByModel = None,
    output: Output = OutputFormat.TABLE,
    control: Control = DEFAULT_CONTROL,
) -> None:
    """One instance in full: why it is not released, and which command helps."""
    with connect(control) as client:
        found = client.instance(choose(client.instances(), instance_id, address, model).name)
        holds = client.rollout_holds()
    if output is OutputFormat.JSON:
        print(json.dumps(instance_json(found), indent=2))
        return
    say("\n".join(instance_details.render(found, holds, datetime.now(UTC), control_again(control))))


def wait(
    instance_id: Id = None,
    goal: Goal = "released",
    timeout: Timeout = "60s",
    address: ByAddress = None,
    model: ByModel = None,
    control: Control = DEFAULT_CONTROL,
) -> None:
    """Waits for an instance to appear and to be released or rejected.

    Exit code 0: it is; 1: it ended otherwise (rejected, released, or expired); 124: not in time.
    """
    wanted = _state("--for", goal)
    if wanted not in (RELEASED, REJECTED):
        raise SettingsError(f"--for '{goal}': is neither released nor rejected")
    seconds = duration("--timeout", timeout)
    with connect(control) as client:
        for found in _followed(client, seconds, instance_id, address, model):
            if found.state in (RELEASED, REJECTED):
                _ended(found, wanted)


def _followed(
    client: ControlClient, seconds: float, text: str | None, address: str | None, model: str | None
) -> Iterator[Instance]:
    """The instance again and again from its appearing on, until the time is up; raises typer.Exit then."""
    deadline = monotonic() + seconds
    found: Instance | None = None
    while True:
        try:
            found = client.instance(found.name) if found else choose(client.instances(), text, address, model)
            yield found
        except NoSuchInstanceError:
            pass
        except ControlError as error:
            if found is None or error.said not in ("UNKNOWN_INSTANCE", "NOT_READY"):
                raise
            if error.said == "UNKNOWN_INSTANCE":
                print(f"{found.id} expired: its lease ended while it was {state_word(found.state)}", file=sys.stderr)
                raise typer.Exit(1) from error
        if monotonic() >= deadline:
            _out_of_time(found, text or address or model or "", seconds)
        sleep(min(POLL_SECONDS, max(0.0, deadline - monotonic())))


def _ended(found: Instance, wanted: "InstanceState.ValueType") -> None:
    say(f"{found.id} is {in_state(found)}")
    raise typer.Exit(0 if found.state == wanted else 1)


def _out_of_time(found: Instance | None, asked: str, seconds: float) -> None:
    if found is None:
        print(f"greenroom: {asked!r} did not appear within {seconds:g}s", file=sys.stderr)
    else:
        waiting = waits_for(found, datetime.now(UTC))
        print(
            f"greenroom: {found.id} is still {state_word(found.state)} after {seconds:g}s; it waits for {waiting}",
            file=sys.stderr,
        )
    raise typer.Exit(TIMED_OUT)


def _state(option: str, word: str) -> "InstanceState.ValueType":
    try:
        return state_named(word)
    except ValueError as error:
        raise SettingsError(f"{option} '{word}': {error}") from error


def _columns() -> int | None:
    """Of the terminal; what goes elsewhere is not bound by any width."""
    screen = console()
    return screen.width if screen.is_terminal else None

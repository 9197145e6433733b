"""Commands about instances: `greenroom instances`, `instance`, `wait`."""

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from time import monotonic, sleep
from typing import Annotated

import typer

from greenroom.addresses import DEFAULT_CONTROL
from greenroom.cli import instance_details, instance_list
from greenroom.cli.choose import Wanted, choose
from greenroom.cli.client import ControlClient
from greenroom.cli.instance_list import waits_for
from greenroom.cli.options import (
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
from greenroom.errors import ControlError, NoSuchInstanceError, SettingsError
from greenroom.pb.control.v1.control_pb2 import INSTANCE_STATE_UNSPECIFIED, Instance, InstanceState

TIMED_OUT = 124
"""The exit code of timeout(1)."""
POLL_SECONDS = 0.3
"""How soon `wait` notices; a proxy answers from memory."""
TELLING_SECONDS = 1.0
"""A call that the end of the time cut shorter than this says nothing about the proxy: what was known before counts."""

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
    wanted = Wanted(instance_id, address, model)
    with connect(control) as client:
        found = client.instance(choose(client.instances(), wanted).name)
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

    Exit code 0: it is; 1: it ended otherwise (rejected, released, or expired), or several fit; 124: not in time.
    Several that fit, whatever their states, are listed with these, and none is chosen. A proxy that does not answer
    is asked again until the time is up.
    """
    aim = _state("--for", goal)
    if aim not in (RELEASED, REJECTED):
        raise SettingsError(f"--for '{goal}': is neither released nor rejected")
    seconds = duration("--timeout", timeout)
    wanted = Wanted(instance_id, address, model)
    with connect(control) as client:
        for found in _followed(client, seconds, wanted):
            if found.state in (RELEASED, REJECTED):
                _ended(found, aim)


def _followed(client: ControlClient, seconds: float, wanted: Wanted) -> Iterator[Instance]:
    """The instance again and again from its appearing on, until the time is up; raises typer.Exit then.

    A proxy or an etcd that is away may come back in time, as it does where all of it is started at once.
    """
    deadline = client.deadline = monotonic() + seconds
    found: Instance | None = None
    trouble: str | None = None
    while (asked := monotonic()) < deadline:
        try:
            found = client.instance(found.name) if found else choose(client.instances(), wanted)
            trouble = ""
            yield found
        except NoSuchInstanceError:
            trouble = ""
        except ControlError as error:
            if found and error.said == "UNKNOWN_INSTANCE":
                print(f"{found.id} expired: its lease ended while it was {state_word(found.state)}", file=sys.stderr)
                raise typer.Exit(1) from error
            if not error.may_pass:
                raise
            if trouble is None or deadline > monotonic() or monotonic() - asked >= TELLING_SECONDS:
                trouble = str(error)
        sleep(min(POLL_SECONDS, max(0.0, deadline - monotonic())))
    _out_of_time(found, str(wanted), seconds, trouble or "")


def _ended(found: Instance, aim: "InstanceState.ValueType") -> None:
    say(f"{found.id} is {in_state(found)}")
    raise typer.Exit(0 if found.state == aim else 1)


def _out_of_time(found: Instance | None, asked: str, seconds: float, trouble: str = "") -> None:
    """`trouble` is why the last question was not answered."""
    if found is None:
        said = f"{asked} did not appear within {seconds:g}s{f': {trouble}' if trouble else ''}"
    elif trouble:
        said = f"{found.id} was {state_word(found.state)} when last seen, and after {seconds:g}s {trouble}"
    else:
        waiting = waits_for(found, datetime.now(UTC))
        said = f"{found.id} is still {state_word(found.state)} after {seconds:g}s; it waits for {waiting}"
    print(f"greenroom: {said}", file=sys.stderr)
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

"""Watching the list of instances: redrawn on a terminal, one line a change elsewhere."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from time import sleep
from types import MappingProxyType
from typing import TypeVar

from rich.live import Live

from greenroom.cli.client import ControlClient
from greenroom.cli.instance_list import one_line, render
from greenroom.cli.layout import printable
from greenroom.cli.options import OutputFormat, console, painted
from greenroom.cli.words import instance_json
from greenroom.errors import ControlError
from greenroom.pb.control.v1.control_pb2 import Instance, InstanceState

Answer = TypeVar("Answer")
POLL_SECONDS = 1.0
"""Often enough to look live, and nothing for a proxy that answers from memory."""


def watch(client: ControlClient, state: "InstanceState.ValueType", output: OutputFormat) -> None:
    """Until it is interrupted. A control API that goes away is told once, and asked again until it is back."""
    screen = console()
    if screen.is_terminal and output is OutputFormat.TABLE:
        _redraw(client, state)
        return
    seen: dict[str, Instance] = {}

    def look() -> tuple[dict[str, Instance], dict[str, Instance]]:
        now = {instance.id: instance for instance in client.instances(state=state)}
        missing = [instance for name, instance in seen.items() if name not in now] if state else []
        return now, {one.id: one for instance in missing if (one := _as_it_is(client, instance)) is not None}

    for now, elsewhere in _polled(look):
        for line in changes(seen, now, output, elsewhere):
            print(printable(line), flush=True)
        seen = now


def changes(
    before: Mapping[str, Instance],
    after: Mapping[str, Instance],
    output: OutputFormat,
    elsewhere: Mapping[str, Instance] = MappingProxyType({}),
) -> list[str]:
    """A line for each instance that is new, has changed, or is gone; `elsewhere` are in a state that is not listed."""
    lines = [
        _line("changed" if name in before else "seen", instance, output)
        for name, instance in after.items()
        if not _same(before.get(name), instance)
    ]
    return lines + [
        _line("changed", elsewhere[name], output) if name in elsewhere else _line("gone", instance, output)
        for name, instance in before.items()
        if name not in after
    ]


def _as_it_is(client: ControlClient, instance: Instance) -> Instance | None:
    """One that left the list: in its new state, or None where its lease ended."""
    try:
        return client.instance(instance.name)
    except ControlError as error:
        if error.said == "UNKNOWN_INSTANCE":
            return None
        raise


def _redraw(client: ControlClient, state: "InstanceState.ValueType") -> None:
    screen = console()
    with Live(console=screen, auto_refresh=False, transient=False, vertical_overflow="crop") as live:
        for instances in _polled(lambda: client.instances(state=state)):
            live.update(painted("\n".join(render(instances, datetime.now(UTC), screen.width))), refresh=True)


def _polled(ask: Callable[[], Answer]) -> Iterator[Answer]:
    is_away = False
    while True:
        try:
            found = ask()
        except ControlError as error:
            if not error.may_pass:
                raise
            if not is_away:
                print(f"greenroom: {error}; asking again until it answers", file=sys.stderr, flush=True)
            is_away = True
        else:
            if is_away:
                print("greenroom: it answers again", file=sys.stderr, flush=True)
            is_away = False
            yield found
        sleep(POLL_SECONDS)


def _same(before: Instance | None, after: Instance) -> bool:
    """Whether nothing changed that anyone would want a line for."""
    return before is not None and before.record_revision == after.record_revision and before == after


def _line(change: str, instance: Instance, output: OutputFormat) -> str:
    if output is OutputFormat.JSON:
        return json.dumps({"change": change, "instance": instance_json(instance)})
    now = datetime.now(UTC)
    return f"{now:%H:%M:%S} {change.ljust(7)} {one_line(instance, now)}"

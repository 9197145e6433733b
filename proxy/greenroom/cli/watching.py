"""Watching the list of instances: redrawn on a terminal, one line a change elsewhere."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from time import sleep

from rich.live import Live

from greenroom.cli.client import ControlClient
from greenroom.cli.instance_list import one_line, render
from greenroom.cli.layout import printable
from greenroom.cli.options import OutputFormat, console, painted
from greenroom.cli.words import instance_json
from greenroom.pb.control.v1.control_pb2 import Instance, InstanceState

POLL_SECONDS = 1.0
"""Often enough to look live, and nothing for a proxy that answers from memory."""


def watch(client: ControlClient, state: "InstanceState.ValueType", output: OutputFormat) -> None:
    """Until it is interrupted. ControlError when the control API goes away."""
    screen = console()
    if screen.is_terminal and output is OutputFormat.TABLE:
        _redraw(client, state)
        return
    seen: dict[str, Instance] = {}
    for instances in _polled(client, state):
        now = {instance.id: instance for instance in instances}
        for line in changes(seen, now, output):
            print(printable(line), flush=True)
        seen = now


def changes(before: Mapping[str, Instance], after: Mapping[str, Instance], output: OutputFormat) -> list[str]:
    """A line for each instance that is new, has changed, or is gone."""
    lines = [
        _line("changed" if name in before else "seen", instance, output)
        for name, instance in after.items()
        if not _same(before.get(name), instance)
    ]
    return lines + [_line("gone", before[name], output) for name in before if name not in after]


def _redraw(client: ControlClient, state: "InstanceState.ValueType") -> None:
    screen = console()
    with Live(console=screen, auto_refresh=False, transient=False, vertical_overflow="crop") as live:
        for instances in _polled(client, state):
            live.update(painted("\n".join(render(instances, datetime.now(UTC), screen.width))), refresh=True)


def _polled(client: ControlClient, state: "InstanceState.ValueType") -> Iterator[Sequence[Instance]]:
    while True:
        yield client.instances(state=state)
        sleep(POLL_SECONDS)


def _same(before: Instance | None, after: Instance) -> bool:
    """Whether nothing changed that anyone would want a line for."""
    return before is not None and before.record_revision == after.record_revision and before == after


def _line(change: str, instance: Instance, output: OutputFormat) -> str:
    if output is OutputFormat.JSON:
        return json.dumps({"change": change, "instance": instance_json(instance)})
    now = datetime.now(UTC)
    return f"{now:%H:%M:%S} {change.ljust(7)} {one_line(instance, now)}"

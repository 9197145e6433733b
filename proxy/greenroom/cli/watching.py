"""Watching the list of instances: redrawn on a terminal, one line a change elsewhere."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from time import sleep

from rich.live import Live

from greenroom.cli.client import ControlClient
from greenroom.cli.following import Change, KnownInstances
from greenroom.cli.instance_list import one_line, render
from greenroom.cli.layout import printable
from greenroom.cli.options import OutputFormat, complain, console, painted
from greenroom.cli.words import instance_json
from greenroom.client.following import Trouble, followed
from greenroom.pb.control.v1.control_pb2 import Instance, InstanceState

REDRAW_SECONDS = 1.0
"""Ages and what is left of a gate's time change without anything happening."""
SETTLE_SECONDS = 0.1
"""What comes within this is drawn together: a rollout hold changes every line."""


def watch(client: ControlClient, state: "InstanceState.ValueType", output: OutputFormat) -> None:
    """Until it is interrupted. A control API that goes away is told once, and asked again until it is back."""
    if console().is_terminal and output is OutputFormat.TABLE:
        _redraw(client, state)
        return
    for changes in followed(client, KnownInstances(), Trouble(complain), state=state):
        for change in changes:
            print(printable(line(change, output)), flush=True)


def line(change: Change, output: OutputFormat) -> str:
    """One change: for people with the time, for programs as an object."""
    if output is OutputFormat.JSON:
        return json.dumps({"change": change.news.value, "instance": instance_json(change.instance)})
    now = datetime.now(UTC)
    return f"{now:%H:%M:%S} {change.news.ljust(7)} {one_line(change.instance, now)}"


def _redraw(client: ControlClient, state: "InstanceState.ValueType") -> None:
    screen = console()
    with Live(console=screen, auto_refresh=False, transient=False, vertical_overflow="crop") as live:
        for instances in at_least_each(REDRAW_SECONDS, _lists(client, state)):
            live.update(painted(*render(instances, datetime.now(UTC), screen.width)), refresh=True)


def _lists(client: ControlClient, state: "InstanceState.ValueType") -> Iterator[Sequence[Instance]]:
    """The list after each change."""
    known = KnownInstances()
    for _ in followed(client, known, Trouble(complain), state=state):
        if known.complete:
            yield tuple(known.now.values())


def at_least_each(
    seconds: float, lists: Iterator[Sequence[Instance]], *, settle_seconds: float = SETTLE_SECONDS
) -> Iterator[Sequence[Instance]]:
    """The newest list when there is one, and again whenever none came for so long; what ends the lists is raised.

    A thread of its own waits for them, which ends with the connection or the program.
    """
    arrived: SimpleQueue[Sequence[Instance] | Exception] = SimpleQueue()
    threading.Thread(target=_put_all, args=(lists, arrived), daemon=True).start()
    newest: Sequence[Instance] | None = None
    while True:
        with suppress(Empty):
            newest = _listed(arrived.get(timeout=seconds))
            sleep(settle_seconds)
            newest = _listed(arrived.get_nowait())
        if newest is not None:
            yield newest


def _put_all(lists: Iterator[Sequence[Instance]], arrived: "SimpleQueue[Sequence[Instance] | Exception]") -> None:
    try:
        for one in lists:
            _put_only(one, arrived)
    except Exception as error:
        # The outermost frame of this thread: whoever draws has to end with it.
        _put_only(error, arrived)


def _put_only(one: Sequence[Instance] | Exception, arrived: "SimpleQueue[Sequence[Instance] | Exception]") -> None:
    """In place of one that was not fetched: a terminal that is stopped for hours must not cost memory meanwhile."""
    with suppress(Empty):
        arrived.get_nowait()
    arrived.put(one)


def _listed(found: Sequence[Instance] | Exception) -> Sequence[Instance]:
    if isinstance(found, Exception):
        raise found
    return found

"""Waiting for one instance: until it appears, and then for whatever becomes of it, or until the time is up.

The rule: a proxy or an etcd that is away may come back in time, as it does where all of it is started at once; so
nothing but the end of the time, or what the instance became, ends the wait.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from time import monotonic, sleep

import typer

from greenroom.cli.choose import Wanted, choose
from greenroom.cli.client import ControlClient
from greenroom.cli.following import KnownInstances
from greenroom.cli.instance_list import waits_for
from greenroom.cli.options import complain, say
from greenroom.cli.words import in_state, state_word
from greenroom.client.following import streamed
from greenroom.errors import ControlError, NoSuchInstanceError
from greenroom.pb.control.v1.control_pb2 import Instance, InstanceState

TIMED_OUT = 124
"""The exit code of timeout(1)."""
RETRY_SECONDS = 0.3
"""How soon a proxy that is back is noticed."""
TELLING_SECONDS = 1.0
"""A call that the end of the time cut shorter than this says nothing about the proxy: what was known before counts."""


def awaited(client: ControlClient, seconds: float, wanted: Wanted) -> Iterator[Instance]:
    """The instance at each change from its appearing on, until the time is up; raises typer.Exit then."""
    deadline = client.deadline = monotonic() + seconds
    known, found = KnownInstances(), None
    trouble: str | None = None
    while (asked := monotonic()) < deadline:
        try:
            for _ in streamed(client, known):
                trouble = ""
                found = _found(known, found, wanted)
                if found is not None:
                    yield found
        except ControlError as error:
            if not error.may_pass:
                raise
            if trouble is None or deadline > monotonic() or monotonic() - asked >= TELLING_SECONDS:
                trouble = str(error)
        sleep(min(RETRY_SECONDS, max(0.0, deadline - monotonic())))
    _out_of_time(found, str(wanted), seconds, trouble or "")


def end(found: Instance, aim: "InstanceState.ValueType") -> None:
    """It became something: says what, and ends the command."""
    say(f"{found.id} is {in_state(found)}")
    raise typer.Exit(0 if found.state == aim else 1)


def _found(known: KnownInstances, before: Instance | None, wanted: Wanted) -> Instance | None:
    """The instance that is waited for as it is now; None as long as none fits, or not all are known yet."""
    if before is None:
        try:
            return choose(list(known.now.values()), wanted)
        except NoSuchInstanceError:
            return None
    now = known.now.get(before.id)
    if now is None:
        complain(f"{before.id} expired: its lease ended while it was {state_word(before.state)}")
        raise typer.Exit(1)
    return now


def _out_of_time(found: Instance | None, asked: str, seconds: float, trouble: str = "") -> None:
    """`trouble` is why the last question was not answered."""
    if found is None:
        said = f"{asked} did not appear within {seconds:g}s{f': {trouble}' if trouble else ''}"
    elif trouble:
        said = f"{found.id} was {state_word(found.state)} when last seen, and after {seconds:g}s {trouble}"
    else:
        waiting = waits_for(found, datetime.now(UTC))
        said = f"{found.id} is still {state_word(found.state)} after {seconds:g}s; it waits for {waiting}"
    complain(f"greenroom: {said}")
    raise typer.Exit(TIMED_OUT)

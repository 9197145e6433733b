"""`greenroom rollout-hold create|list|lift`: stops on releases, for everybody or by selector."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from google.protobuf.duration_pb2 import Duration

from greenroom.addresses import DEFAULT_CONTROL
from greenroom.cli.choose import by_id, id_part, listed
from greenroom.cli.client import ControlClient
from greenroom.cli.layout import shortened, table
from greenroom.cli.options import (
    Control,
    Output,
    OutputFormat,
    TokenFile,
    connect,
    control_again,
    duration,
    in_own_name,
    readable,
    say,
)
from greenroom.cli.words import (
    REJECTED,
    RELEASED,
    as_json,
    clock_time,
    hold_id,
    selector_words,
    since,
    until,
)
from greenroom.errors import ControlError, SettingsError
from greenroom.pb.control.v1.control_pb2 import Instance, RolloutHold, Selector

HEADINGS = ("ID", "ABOUT", "REASON", "WHO", "AGE", "ENDS")
MAX_REASON_CHARACTERS = 80
FIELDS = [field.name for field in Selector.DESCRIPTOR.fields]

app = typer.Typer(no_args_is_help=True, help="Stops on releases. Gates go on running meanwhile.")

Why = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why releases have to stop.")]
For = Annotated[str | None, typer.Option("--for", metavar="DURATION", help="Ends by itself, such as after 2h.")]
Which = Annotated[
    str,
    typer.Option(
        "--selector", metavar="K=GLOB,…", help="namespace, component, endpoint, model, suffix; else everything."
    ),
]
Actor = Annotated[
    str | None, typer.Option("--actor", metavar="NAME", help="Who asks. (default: your token's caller, or user@host)")
]
GivenId = Annotated[str, typer.Option("--id", metavar="ID", help="A DNS label; chosen by the proxy if not given.")]
HoldId = Annotated[str, typer.Argument(metavar="ID", help="Any part of the id that no other rollout hold has.")]


@app.command()
def create(
    reason: Why,
    for_: For = None,
    selector: Which = "",
    actor: Actor = None,
    hold_id_: GivenId = "",
    control: Control = DEFAULT_CONTROL,
    token_file: TokenFile = None,
) -> None:
    """Stops releases until it is lifted or ends by itself."""
    hold = RolloutHold(reason=readable(reason), selector=parse_selector(selector))
    if for_ is not None:
        ttl = Duration()
        ttl.FromTimedelta(timedelta(seconds=duration("--for", for_)))
        hold.ttl.CopyFrom(ttl)
    with connect(control, token_file) as client:
        created = in_own_name(actor, client, lambda who: client.create_rollout_hold(_by(who, hold), readable(hold_id_)))
        about = _stopped_now(client, hold_id(created))
    ends = f"until {clock_time(created.expire_time)}" if created.HasField("expire_time") else "until it is lifted"
    say(f"rollout hold {hold_id(created)} stops releases of {selector_words(created.selector)} {ends}")
    say(about)
    say(f"lift it: greenroom rollout-hold lift {hold_id(created)}{control_again(control, token_file)}")


def _by(who: str, hold: RolloutHold) -> RolloutHold:
    hold.actor = who
    return hold


@app.command("list")
def list_(
    output: Output = OutputFormat.TABLE, control: Control = DEFAULT_CONTROL, token_file: TokenFile = None
) -> None:
    """The rollout holds in force."""
    with connect(control, token_file) as client:
        holds = client.rollout_holds()
    if output is OutputFormat.JSON:
        print(json.dumps({"rollout_holds": [as_json(hold) for hold in holds]}, indent=2))
        return
    say(*render(holds, datetime.now(UTC)))


@app.command()
def lift(hold: HoldId, control: Control = DEFAULT_CONTROL, token_file: TokenFile = None) -> None:
    """Lets releases go on; what became ready meanwhile is released at once."""
    id_part(hold)  # An empty one is told before anybody is asked.
    with connect(control, token_file) as client:
        lifted = client.lift_rollout_hold(choose(client.rollout_holds(), hold).name)
    say(f"lifted rollout hold {hold_id(lifted)} ({shortened(lifted.reason, MAX_REASON_CHARACTERS)}, by {lifted.actor})")


def stops(instances: Sequence[Instance], hold: str) -> str:
    """Which of the instances that there are wait because of the rollout hold of this id."""
    waiting = [one for one in instances if one.state not in (RELEASED, REJECTED)]
    stopped = [one for one in waiting if hold in one.rollout_holds]
    if not stopped:
        return "no instance that waits now matches it; later ones that match will wait"
    count = "1 instance that is" if len(stopped) == 1 else f"{len(stopped)} instances that are"
    return f"it stops {count} known now: {listed(stopped)}"


def render(holds: Sequence[RolloutHold], now: datetime) -> list[str]:
    """The list as lines."""
    return table(HEADINGS, [_row(hold, now) for hold in holds]) if holds else ["no rollout holds"]


def choose(holds: Sequence[RolloutHold], text: str) -> RolloutHold:
    """The one whose id is or contains `text`; ControlError where there is none, or several, SettingsError for ""."""
    return by_id("rollout hold", holds, text, hold_id, lambda hold: hold.reason)


def parse_selector(text: str) -> Selector:
    """`model=tiny*,component=backend`; SettingsError for an unknown field, one given twice, or a missing glob.

    Spaces are refused, since names have none: a glob with one would match nothing, and stop nothing.
    """
    selector = Selector()
    for part in text.split(",") if text else ():
        name, _, glob = part.partition("=")
        if any(map(str.isspace, part)):
            raise SettingsError(f"--selector '{text}': {part!r} has a space in it; write K=GLOB,K=GLOB without any")
        if name not in FIELDS or not glob:
            raise SettingsError(f"--selector '{text}': {part!r} is no K=GLOB, with K one of {', '.join(FIELDS)}")
        if glob != readable(glob):
            raise SettingsError(f"--selector '{readable(text)}': is not UTF-8 text: it would match nothing")
        if getattr(selector, name):
            raise SettingsError(f"--selector '{text}': {name} is given twice")
        setattr(selector, name, glob)
    return selector


def _stopped_now(client: ControlClient, hold: str) -> str:
    """The rollout hold stands whatever becomes of this question."""
    try:
        return stops(client.instances(), hold)
    except ControlError as error:
        return f"which instances it stops now is not known: {error}"


def _row(hold: RolloutHold, now: datetime) -> tuple[str, ...]:
    ends = until(hold.expire_time, now) if hold.HasField("expire_time") else "when lifted"
    reason = shortened(hold.reason, MAX_REASON_CHARACTERS)
    return (hold_id(hold), selector_words(hold.selector), reason, hold.actor, since(hold.create_time, now), ends)

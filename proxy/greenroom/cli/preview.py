"""`greenroom preview open|list|close`: addresses where held workers look released, for those who check them."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from google.protobuf.duration_pb2 import Duration

from greenroom.addresses import DEFAULT_CONTROL
from greenroom.cli.choose import Wanted, by_id, choose, id_part, not_empty
from greenroom.cli.layout import table
from greenroom.cli.options import (
    ByAddress,
    ByModel,
    Control,
    Output,
    OutputFormat,
    TokenFile,
    complain,
    connect,
    control_again,
    duration,
    in_own_name,
    say,
)
from greenroom.cli.rollout_holds import Actor, parse_selector
from greenroom.cli.words import as_json, clock_time, selector_words, since, until
from greenroom.errors import SettingsError
from greenroom.pb.control.v1.control_pb2 import Preview

HEADINGS = ("ID", "SHOWS", "ADDRESS", "WHO", "AGE", "ENDS")

app = typer.Typer(no_args_is_help=True, help="Addresses where etcd's clients see held workers as if released.")

InstanceText = Annotated[
    str | None, typer.Argument(metavar="[ID]", help="Any part of an instance's id; without one, what --selector says.")
]
Which = Annotated[
    str | None,
    typer.Option(
        "--selector", metavar="K=GLOB,…", help="namespace, component, endpoint, model, suffix; else all that is held."
    ),
]
Only = Annotated[bool, typer.Option("--only", help="No other instance, public or not: this one alone.")]
For = Annotated[
    str | None,
    typer.Option("--for", metavar="DURATION", help="Closes by itself after so long, 24h at most. (default: 1h)"),
]
PreviewId = Annotated[str, typer.Argument(metavar="ID", help="Any part of the id that no other preview has.")]


@app.command("open")
def open_(
    instance: InstanceText = None,
    address: ByAddress = None,
    model: ByModel = None,
    selector: Which = None,
    only: Only = False,
    for_: For = None,
    actor: Actor = None,
    control: Control = DEFAULT_CONTROL,
    token_file: TokenFile = None,
) -> None:
    """Prints the address, for ETCD_ENDPOINTS=http://ADDRESS of a frontend; what else there is to say, on stderr."""
    is_one = (instance, address, model) != (None, None, None)
    if is_one and selector is not None:
        raise SettingsError(f"--selector '{selector}': is for many instances, and one is named; give one of the two")
    if only and not is_one:
        raise SettingsError("--only: is for a preview of one instance; name it")
    asked = Preview(only=only)
    if selector is not None:
        not_empty("--selector", selector)
        asked.selector.CopyFrom(parse_selector(selector))
    if for_ is not None:
        ttl = Duration()
        ttl.FromTimedelta(timedelta(seconds=duration("--for", for_)))
        asked.ttl.CopyFrom(ttl)
    with connect(control, token_file) as client:
        if is_one:
            asked.instance = choose(client.instances(), Wanted(instance, address, model)).name
        opened = in_own_name(actor, client, lambda who: client.open_preview(_by(who, asked)))
    preview = preview_id(opened)
    complain(f"preview {preview} shows {shows(opened)} until {clock_time(opened.expire_time)}")
    complain(f"close it: greenroom preview close {preview}{control_again(control, token_file)}")
    print(opened.address)


def _by(who: str, preview: Preview) -> Preview:
    preview.actor = who
    return preview


@app.command("list")
def list_(
    output: Output = OutputFormat.TABLE, control: Control = DEFAULT_CONTROL, token_file: TokenFile = None
) -> None:
    """The previews that are open at this proxy."""
    with connect(control, token_file) as client:
        previews = client.previews()
    if output is OutputFormat.JSON:
        print(json.dumps({"previews": [as_json(preview) for preview in previews]}, indent=2))
        return
    say(*render(previews, datetime.now(UTC)))


@app.command()
def close(preview: PreviewId, control: Control = DEFAULT_CONTROL, token_file: TokenFile = None) -> None:
    """Ends its clients' streams, and frees its port."""
    id_part(preview)  # An empty one is told before anybody is asked.
    with connect(control, token_file) as client:
        closed = client.close_preview(find(client.previews(), preview).name)
    say(f"closed preview {preview_id(closed)} ({shows(closed)}, {closed.address})")


def render(previews: Sequence[Preview], now: datetime) -> list[str]:
    """The list as lines."""
    return table(HEADINGS, [_row(preview, now) for preview in previews]) if previews else ["no previews are open here"]


def find(previews: Sequence[Preview], text: str) -> Preview:
    """The one whose id is or contains `text`; ControlError where there is none, or several."""
    return by_id("preview", previews, text, preview_id, shows)


def preview_id(preview: Preview) -> str:
    """The id in its name."""
    return preview.name.removeprefix("previews/")


def shows(preview: Preview) -> str:
    """What is to be seen there, in few words."""
    if not preview.instance:
        return f"what is held of {selector_words(preview.selector)}"
    return f"{preview.instance.removeprefix('instances/')}{' alone' if preview.only else ''}"


def _row(preview: Preview, now: datetime) -> tuple[str, ...]:
    ends = until(preview.expire_time, now) if preview.HasField("expire_time") else "with its proxy"
    who = preview.actor or "the proxy's start"
    return (preview_id(preview), shows(preview), preview.address, who, since(preview.create_time, now), ends)

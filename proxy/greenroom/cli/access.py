"""`greenroom access new-token`: a token, and what the access file is to say of it.

The rule: the token is printed once and kept nowhere; the access file has its hash. The file is edited by whoever keeps
it, not by a command, so that what changed can be reviewed.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import typer

from greenroom.access.roles import Role
from greenroom.access.tokens import digest_of, new_token
from greenroom.cli.options import duration, readable
from greenroom.cli.rollout_holds import parse_selector
from greenroom.errors import SettingsError

app = typer.Typer(no_args_is_help=True, help="Who may use the control API: callers of the access file.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Who will use it, as records and logs are to say it.")]
AsRole = Annotated[Role, typer.Option("--role", help="What that one may do.")]
Gates = Annotated[
    list[str] | None,
    typer.Option("--gate", metavar="GLOB", help="A reporter's gates, as smoke or 'latency-*'; repeatable."),
]
Which = Annotated[
    str,
    typer.Option("--selector", metavar="K=GLOB,…", help="A reporter's: namespace, component, endpoint, model."),
]
For = Annotated[str | None, typer.Option("--for", metavar="DURATION", help="Expires after so long, such as 90d.")]

_OPTIONS: Final = {"name": "NAME", "gates": "--gate", "selector": "--selector"}


@app.callback()
def _group() -> None:
    """Keeps `new-token` a command of its own as long as it is the only one."""


@app.command("new-token")
def new_token_(name: Name, role: AsRole, gate: Gates = None, selector: Which = "", for_: For = None) -> None:
    """Prints a new token, this once, and the entry of the access file that makes it somebody's."""
    token = new_token()
    expires = None
    if for_ is not None:
        expires = (datetime.now(UTC) + timedelta(seconds=duration("--for", for_))).replace(microsecond=0)
    text = entry(readable(name), role, digest_of(token), gate or [], selector, expires)
    print(f"The token, shown this once; keep it in a file that only its owner can read:\n\n{token}\n")
    print(f"For the access file, under `callers:` (it has the token's hash only):\n\n{text}")


def entry(name: str, role: Role, digest: str, gates: list[str], selector: str, expires: datetime | None) -> str:
    """The YAML of one caller; SettingsError for one that the proxy would refuse."""
    # The other commands should start fast.
    import yaml

    from greenroom.access.entries import parse_entries
    from greenroom.yaml_files import YamlFileError

    fields: dict[str, Any] = {"name": name, "role": str(role)}
    if role is Role.REPORTER and not gates:
        raise SettingsError(
            "new-token: --gate is not given: a reporter has gates, as --gate smoke or --gate 'latency-*'; '*' is all"
        )
    if gates:
        fields["gates"] = [readable(glob) for glob in gates]
    if selector:
        given = parse_selector(selector).ListFields()
        fields["selector"] = {field.name: value for field, value in given}
    fields["token_sha256"] = digest
    if expires is not None:
        fields["expires"] = expires
    text = yaml.safe_dump([fields], sort_keys=False, allow_unicode=True, default_flow_style=False)
    try:
        parse_entries(f"callers:\n{text}")
    except YamlFileError as error:
        raise SettingsError(f"new-token: {_by_option(str(error).partition('callers[0]')[2].lstrip('.: '))}") from error
    return text


def _by_option(said: str) -> str:
    """What is said of an entry's field, said of the option that the field is from."""
    found = re.match(r"(?P<field>name|gates|selector)(?:\[\d+\]|\.(?P<within>\w+))?: ", said)
    if found is None:
        return said
    within = f" {found['within']}" if found["within"] else ""
    return f"{_OPTIONS[found['field']]}{within}: {said[found.end() :]}"

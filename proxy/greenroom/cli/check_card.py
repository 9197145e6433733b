"""`greenroom check card`: what an instance registered, beside what the released ones of its model have."""

from typing import Annotated

import typer

from greenroom.addresses import DEFAULT_CONTROL
from greenroom.cli.check_options import AllowRemote, Timeout, concluded, must_be_given, seconds_of
from greenroom.cli.choose import Wanted, choose
from greenroom.cli.client import ControlClient
from greenroom.cli.options import Control, TokenFile, connect
from greenroom.errors import CheckInconclusive, ControlError, SettingsError
from greenroom.gates.environment import Variable


def card(
    instance: Annotated[
        str,
        typer.Option("--instance", envvar=Variable.INSTANCE, metavar="ID", help="Any part of it that no other has."),
    ] = "",
    expect: Annotated[
        list[str] | None,
        typer.Option("--expect", metavar="FIELD=VALUE", help="What a field of its cards must be; repeatable."),
    ] = None,
    alone_is_fine: Annotated[
        bool, typer.Option("--alone-is-fine", help="Pass where no released instance can be compared with.")
    ] = False,
    timeout: Timeout = "10s",
    allow_remote: AllowRemote = False,
    control: Control = DEFAULT_CONTROL,
    token_file: TokenFile = None,
) -> None:
    """Its cards must be configured as those of the released instances of their models."""
    wanted, seconds = Wanted(must_be_given("--instance", instance, Variable.INSTANCE)), seconds_of(timeout)
    expectations = dict(_expectation(text) for text in expect or ())
    with connect(control, token_file) as client:
        if not client.address.is_loopback and not allow_remote:
            elsewhere = "is not this machine; --allow-remote lets a check ask elsewhere"
            raise SettingsError(f"--control '{control}': {elsewhere}")
        concluded("card", lambda: _checked(client, wanted, expectations, alone_is_fine=alone_is_fine), seconds)


def _checked(client: ControlClient, wanted: Wanted, expectations: dict[str, str], *, alone_is_fine: bool) -> str:
    from greenroom.gates.checks.card import check_card

    try:
        instances = client.instances()
        mine = client.instance(choose(instances, wanted).name)
    except ControlError as error:
        raise CheckInconclusive(str(error)) from error  # Nothing was found out about the instance.
    return check_card(mine, instances, expectations, alone_is_fine=alone_is_fine)


def _expectation(text: str) -> tuple[str, str]:
    from greenroom.core.configuration import expected

    field, equals, value = text.partition("=")
    try:
        if not equals:
            raise ValueError("is no FIELD=VALUE")
        return field, expected(field, value)
    except ValueError as error:
        raise SettingsError(f"--expect '{text}': {error}") from error

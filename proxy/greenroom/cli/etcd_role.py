"""`greenroom etcd-role`: what an etcd with auth on must let workers and proxies do, as commands or carried out."""

import getpass
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from greenroom.addresses import Address
from greenroom.cli.etcd_role_commands import Plan, commands
from greenroom.cli.upstream_files import UpstreamFiles
from greenroom.core.keyspace import FIRST_CLIENT_KEY
from greenroom.core.policy import Policy
from greenroom.errors import SettingsError

PASSWORD_VARIABLE = "GREENROOM_ETCD_PASSWORD"
PROXY_PASSWORD_VARIABLE = "GREENROOM_UPSTREAM_PASSWORD"
DEFAULT_PASSWORD_FILE = "greenroom.password"

Text = str | None


def etcd_role(
    policy: Annotated[
        Text,
        typer.Option(
            "--policy",
            metavar="FILE",
            envvar="GREENROOM_POLICY",
            help="The proxies' policy file: which keys are gated, its gates do not matter. "
            "(default: Dynamo's cards, as with serve's --gate)",
        ),
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option("--also", metavar="PREFIX", help="Other keys on workers' leases, as v1/planner/; repeatable."),
    ] = None,
    worker_role: Annotated[str, typer.Option("--worker-role", metavar="NAME")] = "greenroom-worker",
    worker_user: Annotated[
        list[str] | None,
        typer.Option("--worker-user", metavar="NAME", help="A user of workers, to have the role; repeatable."),
    ] = None,
    proxy_role: Annotated[str, typer.Option("--proxy-role", metavar="NAME")] = "greenroom-proxy",
    proxy_user: Annotated[
        str,
        typer.Option(
            "--proxy-user", metavar="NAME", envvar="GREENROOM_UPSTREAM_USER", help="As serve's --upstream-user."
        ),
    ] = "greenroom",
    proxy_password_file: Annotated[
        Text,
        typer.Option(
            "--proxy-password-file",
            metavar="FILE",
            envvar="GREENROOM_UPSTREAM_PASSWORD_FILE",
            help=f"Its password, for a user that is not there yet; or {PROXY_PASSWORD_VARIABLE}. "
            f"(printed: {DEFAULT_PASSWORD_FILE}, which is made)",
        ),
    ] = None,
    upstream: Annotated[
        Text,
        typer.Option(
            "--upstream",
            metavar="URLS",
            envvar="GREENROOM_UPSTREAM",
            help="etcd, as serve's: http://127.0.0.1:2379, or each member's, with commas between.",
        ),
    ] = None,
    upstream_ca: Annotated[
        Text, typer.Option("--upstream-ca", metavar="FILE", envvar="GREENROOM_UPSTREAM_CA", help="As serve's.")
    ] = None,
    upstream_cert: Annotated[
        Text, typer.Option("--upstream-cert", metavar="FILE", envvar="GREENROOM_UPSTREAM_CERT", help="As serve's.")
    ] = None,
    upstream_key: Annotated[
        Text, typer.Option("--upstream-key", metavar="FILE", envvar="GREENROOM_UPSTREAM_KEY", help="As serve's.")
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Do it, and say what was changed.")] = False,
    user: Annotated[
        Text, typer.Option("--user", metavar="NAME", help="Who does it, as root, where etcd's auth is on already.")
    ] = None,
    password_file: Annotated[
        Text,
        typer.Option(
            "--password-file", metavar="FILE", help=f"Its password; or {PASSWORD_VARIABLE}; or it is asked for."
        ),
    ] = None,
) -> None:
    """Prints what workers and proxies need of an etcd with auth on, as etcdctl commands; --apply does it instead."""
    # Imported when it is needed: the other commands should start fast.
    from greenroom.core.grants import proxy_grants

    addresses = _addresses(upstream) if upstream is not None else ()
    tls = UpstreamFiles(upstream_ca, upstream_cert, upstream_key)
    tls.check(is_secure=any(address.is_secure for address in addresses))
    plan = Plan(
        worker_role=worker_role,
        worker_users=worker_user or (),
        proxy_role=proxy_role,
        proxy_user=proxy_user,
        proxy_grants=proxy_grants(_policy(policy), map(_prefix, also or ())),
        password_file=proxy_password_file or DEFAULT_PASSWORD_FILE,
    )
    if apply:
        _apply(plan, addresses, tls, user, password_file, proxy_password_file)
    elif user is not None or password_file is not None:
        raise SettingsError("--user and --password-file are for --apply, which is not given")
    else:
        print(commands(plan, ",".join(address.url for address in addresses), tls.variables()))


def _apply(
    plan: Plan,
    upstream: Sequence[Address],
    tls: "UpstreamFiles",
    user: str | None,
    password_file: str | None,
    proxy_password_file: str | None,
) -> None:
    from greenroom.cli.etcd_role_apply import AuthApi, apply, in_words
    from greenroom.core.grants import beyond_workers

    if not upstream:
        raise SettingsError("--apply: needs --upstream, the URL of the etcd whose roles and users are to be changed")
    with AuthApi(upstream, tls.credentials()) as api:
        if user is not None:
            api.log_in(user, _password_of(user, password_file))
        if not apply(plan, api, lambda: _proxy_password(plan, proxy_password_file), print):
            print("nothing to change")
        for grant in beyond_workers(api.writable(plan.worker_role)):
            print(
                f"greenroom: role {plan.worker_role} may also write {in_words(grant)}: more of the proxies' own keys "
                "than workers should",
                file=sys.stderr,
            )


def _password_of(user: str, file: str | None) -> str:
    if file is not None:
        return _in_file("--password-file", file)
    if password := os.environ.get(PASSWORD_VARIABLE):
        return password
    if not sys.stdin.isatty():
        raise SettingsError(f"--user '{user}': needs a password: give --password-file, or {PASSWORD_VARIABLE}")
    return getpass.getpass(f"Password of {user}: ")


def _proxy_password(plan: Plan, file: str | None) -> str:
    if file is not None:
        return _in_file("--proxy-password-file", file)
    if password := os.environ.get(PROXY_PASSWORD_VARIABLE):
        return password
    raise SettingsError(
        f"--proxy-user '{plan.proxy_user}': is to be added, and needs a password: give --proxy-password-file, or "
        f"{PROXY_PASSWORD_VARIABLE}"
    )


def _in_file(option: str, file: str) -> str:
    from greenroom.passwords import read_password

    try:
        return read_password(Path(file))
    except ValueError as error:
        raise SettingsError(f"{option} '{file}': {error}") from error


def _policy(file: str | None) -> Policy:
    from greenroom.policy_file import PolicyFileError, load_policy

    if file is None:
        return Policy()
    try:
        return load_policy(Path(file))
    except PolicyFileError as error:
        raise SettingsError(f"--policy '{file}': {error}") from error


def _addresses(urls: str) -> Sequence[Address]:
    found = tuple(_address(url.strip()) for url in urls.split(","))
    if len({address.is_secure for address in found}) > 1:
        raise SettingsError(f"--upstream '{urls}': has members with http:// and with https://; all must be alike")
    return found


def _address(url: str) -> Address:
    try:
        return Address.of_url(url)
    except ValueError as error:
        raise SettingsError(f"--upstream '{url}': {error}") from error


def _prefix(text: str) -> bytes:
    prefix = text.encode()
    if prefix < FIRST_CLIENT_KEY:
        raise SettingsError(f"--also '{text}': is no prefix of clients' keys, such as v1/planner/")
    return prefix

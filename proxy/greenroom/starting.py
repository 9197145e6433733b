"""What a start needs of etcd, and what is said where it is not to be had.

The rule: one line, that names the setting which is to be changed.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import grpc

from greenroom.addresses import Address
from greenroom.errors import StartError
from greenroom.settings import Settings
from greenroom.store.credentials import Credentials, LogInRefused, is_refusal


def credentials_of(settings: Settings, log: Any) -> Credentials | None:
    """The proxy's user of etcd, if it has one."""
    if settings.upstream_user is None:
        return None
    return Credentials(settings.upstream_user, settings.read_upstream_password, log=log)


@contextmanager
def start_errors(settings: Settings, addresses: Sequence[Address]) -> Iterator[None]:
    """Etcd's errors as StartError."""
    try:
        yield
    except LogInRefused as error:
        raise StartError(
            f"--upstream-user '{settings.upstream_user}': etcd does not take it, with the password of "
            f"{settings.upstream_password_source}: {error.reason}"
        ) from error
    except grpc.aio.AioRpcError as error:
        raise StartError(_in_words(error, settings, addresses)) from error


def _in_words(error: grpc.aio.AioRpcError, settings: Settings, addresses: Sequence[Address]) -> str:
    details = " ".join((error.details() or "").split()) or error.code().name
    upstream = f"--upstream '{','.join(address.url for address in addresses)}'"
    if error.code() is grpc.StatusCode.PERMISSION_DENIED:
        return f"--upstream-user '{settings.upstream_user}': {details}; `greenroom etcd-role` prints what it needs"
    if settings.upstream_user is None and is_refusal(error):
        return f"{upstream}: etcd knows users, and --upstream-user is not given: {details}"
    return f"{upstream}: etcd does not answer: {details}"

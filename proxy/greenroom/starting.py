"""What a start needs of etcd, and what is said where it is not to be had.

The rule: one line, that names the setting which is to be changed. An etcd that cannot be reached is an error at once;
one that is there and without a leader has one in a moment.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import grpc

from greenroom.addresses import Address
from greenroom.errors import StartError
from greenroom.settings import Settings
from greenroom.store.credentials import Credentials, LogInRefused, is_refusal
from greenroom.store.prefix_follower import NEEDS_LEADER
from greenroom.store.prober import ETCDS_WORDS, QUESTION, is_proof
from greenroom.store.upstream import Upstream, why

ELECTION_SECONDS = 10.0
"""An election takes one or two seconds, on a busy machine some more; longer without a leader is no election."""
ASK_AGAIN_SECONDS = 0.2


def credentials_of(settings: Settings, log: Any) -> Credentials | None:
    """The proxy's user of etcd, if it has one."""
    if settings.upstream_user is None:
        return None
    return Credentials(settings.upstream_user, settings.read_upstream_password, log=log)


async def through_elections(step: Callable[[], Awaitable[None]], *, log: Any) -> None:
    """Takes one step of the start, again and again while etcd says that it has no leader for it.

    What the step can raise otherwise; AioRpcError as etcd gives it after ELECTION_SECONDS. A step that was taken in
    part is taken anew.
    """
    time = asyncio.get_running_loop().time
    until, is_told = time() + ELECTION_SECONDS, False
    while True:
        try:
            return await step()
        except grpc.aio.AioRpcError as error:
            if not _is_without_leader(error) or time() >= until:
                raise
            if not is_told:
                is_told = True
                log.warning("upstream.without.leader", reason=why(error), tries_for_seconds=ELECTION_SECONDS)
        await asyncio.sleep(ASK_AGAIN_SECONDS)


async def ask_for_leader(upstream: Upstream) -> None:
    """AioRpcError, at once, from a member that knows no leader: other calls would be kept waiting by it for seconds."""
    try:
        await upstream.as_client(NEEDS_LEADER).range(QUESTION, timeout_seconds=ELECTION_SECONDS)
    except grpc.aio.AioRpcError as error:
        if not is_proof(error):
            raise


def _is_without_leader(error: grpc.aio.AioRpcError) -> bool:
    """Etcd itself says that it cannot do it now; one that cannot be reached says nothing."""
    return error.code() is grpc.StatusCode.UNAVAILABLE and (error.details() or "").startswith(ETCDS_WORDS)


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

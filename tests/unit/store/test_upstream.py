"""Who makes a call, and with what: never both. Calls for clients wait for a connection. How an error is told."""

import time
from typing import Any, cast

import grpc
import pytest

from greenroom.pb.etcd import rpc_pb2
from greenroom.store.credentials import Authenticate, Credentials, Metadata
from greenroom.store.upstream import MAX_WHY_CHARACTERS, Upstream, why
from tests.support.mirroring import unconnected


async def test_what_is_made_for_clients_shares_the_connections() -> None:
    upstream = Upstream([("etcd-0", 1), ("etcd-1", 2)])
    view = upstream.for_clients()
    with pytest.raises(grpc.aio.AioRpcError), upstream._channels.current():
        raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE)
    assert repr(view) == repr(upstream) == "Upstream(dns:etcd-1:2)"
    await upstream.close()


async def test_calls_for_clients_wait_for_a_connection_within_their_time_and_others_fail_at_once() -> None:
    upstream = unconnected()
    took = []
    for used, seconds in ((upstream, 60.0), (upstream.for_clients(), 0.2)):
        start = time.monotonic()
        with pytest.raises(grpc.aio.AioRpcError, match="refused"):
            await used.txn(rpc_pb2.TxnRequest(), timeout_seconds=seconds)
        took.append(time.monotonic() - start)
    assert took[0] < 30
    assert took[1] >= 0.2
    await upstream.close()


class Tokens:
    """Credentials that have another token after each refusal."""

    def __init__(self) -> None:
        self.number = 1
        self.times_left: list[float | None] = []

    async def metadata(self, _: Authenticate, timeout_seconds: float | None) -> Metadata:
        self.times_left.append(timeout_seconds)
        return (("token", f"own{self.number}"),)

    def refused(self, _: Metadata, error: grpc.aio.AioRpcError) -> bool:
        self.number += 1
        return error.code() is grpc.StatusCode.UNAUTHENTICATED


class Sent:
    """Stands in for the connection: notes what a call carries, and refuses the first calls."""

    def __init__(self, refusals: int = 0, code: grpc.StatusCode = grpc.StatusCode.UNAUTHENTICATED) -> None:
        self.refusals, self.code = refusals, code
        self.metadata: list[Metadata] = []

    async def unary(self, _: object, __: bytes, metadata: Metadata, ___: float | None) -> bytes:
        self.metadata.append(metadata)
        if len(self.metadata) <= self.refusals:
            raise grpc.aio.AioRpcError(self.code)
        return b"answer"


def upstream_over(sent: Sent, tokens: Tokens | None = None) -> Upstream:
    upstream = Upstream([("etcd-0", 1)], cast(Credentials | None, tokens))
    upstream._connection = cast(Any, sent)
    return upstream


async def test_the_proxys_own_calls_carry_its_token() -> None:
    sent = Sent()
    upstream = upstream_over(sent, Tokens())
    assert upstream.has_user
    assert await upstream.plain("/path", b"") == b"answer"
    assert sent.metadata == [(("token", "own1"),)]
    await upstream.close()


@pytest.mark.parametrize("metadata", [(), (("token", "the client's"), ("x-trace", "1"))])
async def test_a_clients_calls_carry_what_the_client_sent_and_nothing_else(metadata: Metadata) -> None:
    """Least of all where it sent nothing: it would be served with the proxy's rights."""
    sent = Sent()
    upstream = upstream_over(sent, Tokens())
    client = upstream.as_client(metadata)
    await client.plain("/path", b"")
    await client.txn(rpc_pb2.TxnRequest())
    assert sent.metadata == [metadata] * 2
    await upstream.close()


async def test_a_clients_token_that_is_refused_is_the_clients_business() -> None:
    sent = Sent(refusals=1)
    upstream = upstream_over(sent, Tokens())
    with pytest.raises(grpc.aio.AioRpcError):
        await upstream.as_client(()).plain("/path", b"")
    assert len(sent.metadata) == 1
    await upstream.close()


async def test_a_call_that_was_refused_for_its_token_is_made_once_more() -> None:
    sent, tokens = Sent(refusals=1), Tokens()
    upstream = upstream_over(sent, tokens)
    assert await upstream.plain("/path", b"", timeout_seconds=5.0) == b"answer"
    assert sent.metadata == [(("token", "own1"),), (("token", "own2"),)]
    assert tokens.times_left[0] is not None
    assert all(left is not None and 0 < left <= 5 for left in tokens.times_left)
    await upstream.close()


@pytest.mark.parametrize(("refusals", "code"), [(2, grpc.StatusCode.UNAUTHENTICATED), (1, grpc.StatusCode.UNAVAILABLE)])
async def test_it_is_made_no_oftener_and_for_no_other_reason(refusals: int, code: grpc.StatusCode) -> None:
    """What may have happened must not happen twice."""
    sent = Sent(refusals, code)
    upstream = upstream_over(sent, Tokens())
    with pytest.raises(grpc.aio.AioRpcError):
        await upstream.plain("/path", b"")
    assert len(sent.metadata) == refusals
    await upstream.close()


async def test_without_a_user_the_proxy_is_nobody() -> None:
    sent = Sent()
    upstream = upstream_over(sent)
    await upstream.log_in(timeout_seconds=1)
    await upstream.plain("/path", b"")
    assert (upstream.has_user, sent.metadata) == (False, [()])
    await upstream.close()


def test_an_error_is_one_short_line_for_logs() -> None:
    """Printed as it is, gRPC's error fills ten lines, debug string and all."""
    refused = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, details="connection\n  refused", debug_error_string="x")
    assert why(refused, 5) == "UNAVAILABLE: connection refused"
    assert why(grpc.aio.AioRpcError(grpc.StatusCode.DEADLINE_EXCEEDED, details="Deadline"), 5) == "no answer within 5 s"
    assert why(TimeoutError(), 2.5) == "no answer within 2.5 s"
    assert why(TimeoutError()) == "no answer in time"
    assert why(ValueError()) == "ValueError"
    assert len(why(ValueError("x" * 1000))) == MAX_WHY_CHARACTERS

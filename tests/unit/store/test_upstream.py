"""Calls for clients wait for a connection, others do not; and how an error is told."""

import time

import grpc
import pytest

from greenroom.pb.etcd import rpc_pb2
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
    for used in (upstream, upstream.for_clients()):
        start = time.monotonic()
        with pytest.raises(grpc.aio.AioRpcError, match="refused"):
            await used.txn(rpc_pb2.TxnRequest(), timeout_seconds=0.3)
        took.append(time.monotonic() - start)
    assert took[0] < 0.25 < 0.3 <= took[1]
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

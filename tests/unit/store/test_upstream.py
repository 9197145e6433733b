"""gRPC's names for etcd's addresses, and when the next address is tried."""

import grpc
import pytest

from greenroom.store.upstream import Address, Upstream, targets


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        ([("127.0.0.1", 2379)], ["ipv4:127.0.0.1:2379"]),
        ([("10.0.0.1", 1), ("10.0.0.2", 2)], ["ipv4:10.0.0.1:1,10.0.0.2:2"]),
        ([("::1", 2379), ("fe80::1", 2)], ["ipv6:[::1]:2379,[fe80::1]:2"]),
        ([("etcd.internal", 2379)], ["dns:etcd.internal:2379"]),
        ([("etcd-0", 1), ("etcd-1", 2)], ["dns:etcd-0:1", "dns:etcd-1:2"]),
        ([("127.0.0.1", 1), ("::1", 2)], ["ipv4:127.0.0.1:1", "ipv6:[::1]:2"]),
    ],
)
def test_literal_addresses_are_one_target_and_names_one_each(addresses: list[Address], expected: list[str]) -> None:
    assert targets(addresses) == expected


@pytest.mark.parametrize(
    ("code", "moves"),
    [
        (grpc.StatusCode.UNAVAILABLE, True),
        (grpc.StatusCode.NOT_FOUND, False),
        (grpc.StatusCode.DEADLINE_EXCEEDED, False),
    ],
)
async def test_only_an_etcd_that_cannot_be_reached_makes_it_move_on(code: grpc.StatusCode, moves: bool) -> None:
    upstream = Upstream([("etcd-0", 1), ("etcd-1", 2)])
    with pytest.raises(grpc.aio.AioRpcError), upstream._moving_on():
        raise grpc.aio.AioRpcError(code)
    assert repr(upstream) == ("Upstream(dns:etcd-1:2)" if moves else "Upstream(dns:etcd-0:1)")
    await upstream.close()


async def test_calls_that_fail_together_move_on_once_and_the_last_leads_back_to_the_first() -> None:
    upstream = Upstream([("etcd-0", 1), ("etcd-1", 2)])
    with pytest.raises(grpc.aio.AioRpcError), upstream._moving_on(), upstream._moving_on():
        raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE)
    assert "etcd-1" in repr(upstream)
    with pytest.raises(grpc.aio.AioRpcError), upstream._moving_on():
        raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE)
    assert "etcd-0" in repr(upstream)
    await upstream.close()

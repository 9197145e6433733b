"""gRPC's names for etcd's addresses, and when the next address is tried."""

import grpc
import pytest

from greenroom.store import channels as channels_module
from greenroom.store.channels import Address, Channels, targets


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
    channels = Channels([("etcd-0", 1), ("etcd-1", 2)])
    with pytest.raises(grpc.aio.AioRpcError), channels.current():
        raise grpc.aio.AioRpcError(code)
    assert channels.target == ("dns:etcd-1:2" if moves else "dns:etcd-0:1")
    await channels.close()


async def test_calls_that_fail_together_move_on_once_and_the_last_leads_back_to_the_first() -> None:
    channels = Channels([("etcd-0", 1), ("etcd-1", 2)])
    with pytest.raises(grpc.aio.AioRpcError), channels.current(), channels.current():
        raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE)
    assert "etcd-1" in channels.target
    with pytest.raises(grpc.aio.AioRpcError), channels.current():
        raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE)
    assert "etcd-0" in channels.target
    await channels.close()


async def test_waiting_ends_when_the_time_is_up_and_says_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    channels = Channels([("127.0.0.1", 1)])
    assert await channels.wait_ready(0.05) == 0
    monkeypatch.setattr(channels_module, "LONGEST_WAIT_SECONDS", 0.05)
    assert await channels.wait_ready(None) is None
    left = await channels.wait_ready(5)
    assert left is not None
    assert 4 < left < 5
    await channels.close()


async def test_whichever_channel_is_connected_is_used() -> None:
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    channels = Channels([("127.0.0.1", 1), ("localhost", port)])
    assert await channels.wait_ready(5) is not None
    assert channels.target == f"dns:localhost:{port}"
    await channels.close()
    await server.stop(0)

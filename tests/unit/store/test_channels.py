"""Which member's channel is in use, and when another one is."""

import asyncio

import grpc
import pytest

from greenroom.store import channels as channels_module
from greenroom.store.channels import LEFT, Channels, target_of
from greenroom.store.members import Address

ONE, TWO = ("etcd-0", 1), ("etcd-1", 2)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (("10.0.0.1", 2379), "ipv4:10.0.0.1:2379"),
        (("::1", 2379), "ipv6:[::1]:2379"),
        (("etcd.internal", 2379), "dns:etcd.internal:2379"),
    ],
)
def test_grpcs_name_says_what_kind_of_address_it_is(address: Address, expected: str) -> None:
    assert target_of(address) == expected


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
    left = await channels.wait_ready(100)
    assert left is not None
    assert 50 < left < 100
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


async def bad_and_good() -> Channels:
    """ONE was in use until it turned out bad; TWO is good."""
    channels = Channels([ONE, TWO])
    channels.members.answered(TWO, 0)
    for asked in (0, 10):
        channels.members.failed(ONE, "no leader", asked=asked, now=asked)
    return channels


async def test_a_call_goes_to_a_good_member_whichever_was_in_use() -> None:
    channels = await bad_and_good()
    with channels.current() as channel:
        assert channel is channels.channel(TWO)
    assert channels.target == target_of(TWO)
    await channels.close()


async def test_a_good_member_is_used_on_for_want_of_another_one() -> None:
    channels = await bad_and_good()
    with pytest.raises(grpc.aio.AioRpcError), channels.current():
        raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE)
    assert channels.target == target_of(TWO)
    await channels.close()


async def waits_for_ever(channels: Channels) -> None:
    with channels.current():
        await asyncio.Event().wait()


async def test_calls_end_when_their_member_is_left_and_others_go_on() -> None:
    channels = Channels([ONE, TWO])
    on_one = asyncio.create_task(waits_for_ever(channels))
    await asyncio.sleep(0)
    channels.members.answered(TWO, 0)
    on_two = asyncio.create_task(waits_for_ever(channels))
    await asyncio.sleep(0)
    channels.leave(ONE)
    channels.leave(ONE)
    with pytest.raises(grpc.aio.AioRpcError) as left:
        await on_one
    assert (left.value.code(), left.value.details()) == (grpc.StatusCode.UNAVAILABLE, LEFT)
    assert not on_two.done()
    on_two.cancel()
    with pytest.raises(asyncio.CancelledError):
        await on_two
    await channels.close()


async def test_a_caller_that_is_cancelled_at_the_same_moment_is_cancelled() -> None:
    channels = Channels([ONE])
    call = asyncio.create_task(waits_for_ever(channels))
    await asyncio.sleep(0)
    channels.leave(ONE)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await channels.close()


async def test_a_caller_whose_member_was_left_can_go_on() -> None:
    """No cancellation stays behind in its task: the next call is a call like any other."""
    channels = Channels([ONE])

    async def twice() -> str:
        with pytest.raises(grpc.aio.AioRpcError):
            await waits_for_ever(channels)
        async with asyncio.timeout(5):
            await asyncio.sleep(0)
        return "went on"

    call = asyncio.create_task(twice())
    await asyncio.sleep(0)
    channels.leave(ONE)
    assert await call == "went on"
    await channels.close()


async def test_a_member_that_is_merely_connected_is_not_used_while_another_is_good() -> None:
    """Cut off from its peers it takes connections as before; the good one may take a moment."""
    servers, ports = [], []
    for _ in range(2):
        servers.append(grpc.aio.server())
        ports.append(servers[-1].add_insecure_port("127.0.0.1:0"))
    await servers[0].start()
    cut, good = (("127.0.0.1", port) for port in ports)
    channels = Channels([cut, good])
    assert await channels.wait_ready(5) is not None
    assert channels.target == target_of(cut)
    channels.members.answered(good, 0)
    assert await channels.wait_ready(0.05) == 0
    waiting = [asyncio.create_task(channels.wait_ready(10)) for _ in range(3)]
    await servers[1].start()
    for left in await asyncio.gather(*waiting):
        assert left is not None
        assert left > 0
    assert channels.target == target_of(good)
    await channels.close()
    for server in servers:
        await server.stop(0)

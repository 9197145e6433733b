"""What counts as a proof, what is told of it, and when a member is left. Asking is shown on real etcds."""

import asyncio

import grpc
import pytest

from greenroom.store import members as members_module
from greenroom.store import prober as prober_module
from greenroom.store.channels import Channels
from greenroom.store.members import Address, Standing
from greenroom.store.prober import AGAIN_SECONDS, ANSWER_SECONDS, EVERY_SECONDS, PROOFS, Prober, is_proof
from tests.support.control_side import EventLog

A, B = ("127.0.0.1", 1), ("127.0.0.1", 2)


class Probing:
    """A prober of two members that is told what its probes brought."""

    def __init__(self) -> None:
        self.log = EventLog()
        self.channels = Channels([A, B])
        self.prober = Prober(self.channels, log=self.log)
        self.left: list[Address] = []
        self.prober.on_leave(self.left.append)
        self.now = 100.0
        self.prober._time = lambda: self.now

    def note(self, address: Address, *reasons: str | None) -> None:
        """Probes that took no time, two seconds after each other."""
        for reason in reasons:
            self.now += 2
            self.prober._note(address, reason, self.now)

    @property
    def events(self) -> list[tuple[str, str]]:
        return [(event["event"], event["member"]) for event in self.log.events]


async def test_each_change_is_logged_once() -> None:
    probing = Probing()
    probing.note(A, None, None, "no leader", "no leader", "no leader", None, None)
    assert probing.events == [("upstream.member.bad", "127.0.0.1:1")]
    probing.note(A, "no leader", "no leader", None, None, None, None, None)
    assert probing.events == [("upstream.member.bad", "127.0.0.1:1"), ("upstream.member.good", "127.0.0.1:1")]
    assert probing.log.events[0]["reason"] == "no leader"


async def test_before_any_member_was_good_nothing_is_told() -> None:
    """A start with a wrong address ends with an error of one line."""
    probing = Probing()
    probing.note(A, "refused", "refused", "refused")
    assert probing.events == []
    probing.note(B, None)
    probing.note(A, "refused", "refused")
    assert probing.events == [("upstream.member.bad", "127.0.0.1:1")]


async def test_a_bad_member_is_left_again_and_again_while_another_is_good() -> None:
    """A client may come to it at any moment, for want of a better one at that moment."""
    probing = Probing()
    probing.note(A, "refused", "refused")
    assert probing.left == []
    probing.note(B, None)
    assert probing.left == []
    probing.note(A, "refused", "refused")
    assert probing.left == [A, A]
    probing.note(A, None)
    assert probing.left == [A, A]


async def test_the_only_member_is_never_left() -> None:
    probing = Probing()
    probing.note(A, "refused", "refused", "refused")
    probing.note(B, "refused", "refused", "refused")
    assert probing.left == []


async def test_own_calls_on_a_bad_member_end() -> None:
    """A watch on a member that is cut off would go on in silence for ever, and with it everything that follows it."""
    probing = Probing()

    async def waits_for_ever() -> None:
        with probing.channels.current():
            await asyncio.Event().wait()

    call = asyncio.create_task(waits_for_ever())
    await asyncio.sleep(0)
    probing.note(B, None)
    probing.note(A, "no leader")
    assert not call.done()
    probing.note(A, "no leader")
    with pytest.raises(grpc.aio.AioRpcError):
        await call


@pytest.mark.parametrize(
    ("notes", "is_over"),
    [([(A, None)], True), ([(A, "refused")], False), ([(A, "refused"), (B, "refused")], True)],
)
async def test_a_start_waits_for_one_good_member_or_for_all_bad_ones(
    notes: list[tuple[Address, str | None]], *, is_over: bool
) -> None:
    probing = Probing()
    first_round = asyncio.create_task(probing.prober.first_round())
    for address, reason in notes:
        probing.note(address, reason)
    await asyncio.sleep(0)
    assert first_round.done() is is_over
    first_round.cancel()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prober_module, "AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(members_module, "FAILING_SECONDS", 0.0)


@pytest.mark.usefixtures("impatient")
async def test_one_that_refuses_is_bad_after_its_second_probe() -> None:
    probing = Probing()
    probing.note(B, None)
    probing.prober._time = asyncio.get_running_loop().time
    running = asyncio.create_task(probing.prober.run())
    (event, *_) = await probing.log.wait_named("upstream.member.bad")
    assert event["reason"].startswith("UNAVAILABLE: ")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await probing.channels.close()


@pytest.mark.usefixtures("impatient")
async def test_whatever_serves_no_etcd_is_bad() -> None:
    server = grpc.aio.server()
    address = ("127.0.0.1", server.add_insecure_port("127.0.0.1:0"))
    await server.start()
    channels = Channels([address])
    prober = Prober(channels, log=EventLog())
    for _ in range(2):
        prober._note(address, await prober._probe(address), asked=0)
    assert channels.members.standing(address) is Standing.BAD
    await channels.close()
    await server.stop(0)


def test_no_error_of_an_absent_quorum_is_a_proof() -> None:
    assert not PROOFS & {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNKNOWN}


@pytest.mark.parametrize(
    ("code", "details", "expected"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: user name is empty", True),
        (grpc.StatusCode.PERMISSION_DENIED, "etcdserver: permission denied", True),
        # What gRPC makes of a web server's 401 and 403.
        (grpc.StatusCode.UNAUTHENTICATED, "Received http2 header with status: 401", False),
        (grpc.StatusCode.PERMISSION_DENIED, "Received http2 header with status: 403", False),
        (grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader", False),
    ],
)
def test_only_etcds_own_refusals_are_proofs(code: grpc.StatusCode, details: str, *, expected: bool) -> None:
    assert is_proof(grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)) is expected


def test_a_silent_member_is_left_in_time_for_short_leases() -> None:
    """A lease of 10 s that was kept alive a third of it ago; its client needs a moment to come again."""
    assert EVERY_SECONDS + 2 * ANSWER_SECONDS + AGAIN_SECONDS < 10 * 2 / 3 - 1

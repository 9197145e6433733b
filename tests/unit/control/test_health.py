"""Who is healthy: only who is known to be released."""

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from greenroom.control.health import Health, Place, place_of
from greenroom.core.fleet import UNLIMITED, Limits, turn_of
from greenroom.core.policy import OnConflict, ReleasesPolicy
from greenroom.core.record import State
from greenroom.core.transitions import Outcome, rejected, released, retried, with_verdict, withdrawn
from greenroom.pb.etcd import kv_pb2
from greenroom.store.follower import Follower
from tests.support.known_fleet import KnownFleet
from tests.support.mirroring import ONE, TWO, fed_follower, held, kv_of, record_kv
from tests.support.registering import held_record, instance_record, instance_record_key, now

RELEASED = released(held_record(ONE), now())


def address_event(instance: str, address: str) -> kv_pb2.Event:
    return kv_pb2.Event(
        type=kv_pb2.Event.PUT, kv=kv_of(instance_record_key(instance), instance_record(instance, address))
    )


def fleet() -> Follower:
    """ONE is released at 10.0.0.7:8000, TWO is held at 10.0.0.7:8001."""
    record = with_verdict(held_record(TWO), "smoke", 1, Outcome.FAILED, reason="NaN", reporter="ci", now=now())
    follower = fed_follower([record_kv(ONE, RELEASED), *held(TWO, record)])
    follower.mirror.apply_addresses([address_event(ONE, "10.0.0.7:8000"), address_event(TWO, "10.0.0.7:8001")])
    return follower


async def ask(
    path: str, follower: Follower | None = None, caller: str = "10.0.0.7", limits: Limits = UNLIMITED
) -> httpx.Response:
    health = Health(follower or fleet(), lambda: limits, clock=now)
    routes = [Route("/health", health.at_address), Route("/{instance}/health", health.of_instance)]
    transport = httpx.ASGITransport(app=Starlette(routes=routes), client=(caller, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        return await client.get(path)


async def test_a_released_instance_is_healthy() -> None:
    answer = await ask(f"/{ONE}/health")
    assert (answer.status_code, answer.json()["healthy"], answer.json()["reasons"]) == (200, True, [])
    assert answer.json()["instances"][0]["state"] == State.RELEASED


async def test_another_one_says_its_state_its_gates_and_why() -> None:
    answer = await ask(f"/{TWO}/health")
    assert answer.status_code == 503
    [said] = answer.json()["instances"]
    assert (said["instance"], said["state"], said["gates"]) == (TWO, "REJECTED", {"smoke": "FAILED"})
    assert answer.json()["reasons"] == ["smoke failed: NaN"]


async def test_one_that_waits_for_its_turn_or_for_another_configuration_says_so() -> None:
    ready = with_verdict(held_record(TWO), "smoke", 1, Outcome.PASSED, reason="", reporter="ci", now=now())
    one, two = (
        record.model_copy(update={"cards": (record.cards[0].model_copy(update={"configuration": line}),)})
        for record, line in ((RELEASED, "a=1"), (ready, "a=2"))
    )
    limits = Limits(ReleasesPolicy(max_in_flight=1), KnownFleet(turns=[turn_of(TWO, ready)]))
    answer = await ask(f"/{TWO}/health", fed_follower(held(TWO, ready)), limits=limits)
    assert (answer.status_code, answer.json()["reasons"]) == (
        503,
        ["place 1 of 1 in the queue; 0 of 1 releases in flight"],
    )
    queues = two.model_copy(update={"on_conflict": OnConflict.QUEUE})
    answer = await ask(f"/{TWO}/health", fed_follower([record_kv(ONE, one), *held(TWO, queues)]))
    [reason] = answer.json()["reasons"]
    assert "a is 2 here and 1 there; it waits as long as one that is released differs" in reason


async def test_one_in_dry_run_is_healthy_whatever_its_gates_say_until_a_person_keeps_it_out() -> None:
    failed = with_verdict(held_record(TWO), "smoke", 1, Outcome.FAILED, reason="NaN", reporter="ci", now=now())
    dry_run = failed.model_copy(update={"dry_run": True})
    answer = await ask(f"/{TWO}/health", fed_follower([record_kv(TWO, dry_run)]))
    assert (answer.status_code, answer.json()["reasons"]) == (200, [])
    answer = await ask(f"/{TWO}/health", fed_follower([record_kv(TWO, rejected(dry_run, "ann", "no", now()))]))
    assert (answer.status_code, len(answer.json()["reasons"])) == (503, 1)


async def test_what_a_person_took_back_of_a_dry_run_is_unhealthy_until_it_is_public_again() -> None:
    """After a retry it was healthy at once, though its card was held until its gates passed."""
    dry_run = held_record(TWO).model_copy(update={"dry_run": True})
    taken_back = withdrawn(released(dry_run, now()), "ann", "no", now(), by_person=True)
    again = retried(taken_back, (), "ann", "yes", now())
    answer = await ask(f"/{TWO}/health", fed_follower(held(TWO, again)))
    assert (answer.status_code, len(answer.json()["reasons"])) == (503, 1)
    answer = await ask(f"/{TWO}/health", fed_follower([record_kv(TWO, released(again, now()))]))
    assert (answer.status_code, answer.json()["reasons"]) == (200, [])


async def test_who_is_not_known_is_not_healthy() -> None:
    """A pod asks before its worker has registered."""
    answer = await ask("/abc9/health")
    assert (answer.status_code, answer.json()["reasons"]) == (
        503,
        ["no instance abc9: it never registered, or its lease ended"],
    )
    answer = await ask("/health?address=10.9.9.9")
    assert answer.status_code == 503
    assert answer.json()["reasons"] == ["no instance with a card says that it listens at 10.9.9.9"]


async def test_by_address_all_who_listen_there_count() -> None:
    assert (await ask("/health?address=10.0.0.7:8000")).status_code == 200
    assert (await ask("/health?address=10.0.0.7:8001")).status_code == 503
    answer = await ask("/health?address=10.0.0.7")
    assert (answer.status_code, len(answer.json()["instances"])) == (503, 2)


async def test_without_an_address_it_is_the_callers_own() -> None:
    assert len((await ask("/health")).json()["instances"]) == 2
    assert len((await ask("/health", caller="::ffff:10.0.0.7")).json()["instances"]) == 2
    assert (await ask("/health", caller="10.0.0.8")).json()["instances"] == []


async def test_an_outage_of_etcd_makes_nobody_unready() -> None:
    """Else all pods of a fleet would be taken out of service at once, for nothing that they did."""
    follower = fleet()
    follower.went_away("no answer")
    answer = await ask(f"/{ONE}/health", follower)
    assert answer.status_code == 200
    assert answer.json()["reasons"] == ["as last known: etcd cannot be followed: no answer"]


async def test_a_proxy_that_has_read_nothing_calls_nobody_healthy() -> None:
    answer = await ask(f"/{ONE}/health", fed_follower())
    assert answer.status_code == 503
    assert answer.json()["reasons"][-1] == "as last known: the reserved area was not read yet"


@pytest.mark.parametrize("path", ["/ABC/health", "/health?address=:80", "/health?address=a:b", "/health?address=[::1"])
async def test_nonsense_is_said_to_be(path: str) -> None:
    answer = await ask(path)
    assert answer.status_code == 400
    assert answer.json()["healthy"] is False


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("10.0.0.7", Place("10.0.0.7", None)),
        ("10.0.0.7:8000", Place("10.0.0.7", 8000)),
        ("fd00::7", Place("fd00::7", None)),
        ("[fd00::7]", Place("fd00::7", None)),
        ("[fd00::7]:8000", Place("fd00::7", 8000)),
    ],
)
def test_places_are_written_with_and_without_a_port(text: str, place: Place) -> None:
    assert place_of(text) == place

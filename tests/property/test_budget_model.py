"""The budget as a model: two workers, two proxies, every interleaving, with at most one release in flight.

The rule: as in test_protocol_model. What the budget's key is compared for goes wrong as soon as it is not.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from greenroom.core.keyspace import BUDGET, InstanceId, lease_of
from greenroom.core.policy import ReleasesPolicy
from greenroom.pb.etcd import rpc_pb2
from tests.support.model_actors import hold_rollout, lift_rollout_hold
from tests.support.model_budget import CARDS, L, M, classify, override, passes, reconciles, withdraws
from tests.support.model_etcd import ModelEtcd
from tests.support.model_explore import Actor, Ask, At, Call, Change, Fault, World, explore, run
from tests.support.model_fleet import ONE, card
from tests.support.model_workers import create, end_lease
from tests.support.story import Story

ONE_AT_ONCE = ReleasesPolicy(max_in_flight=1, settle_seconds=30)
TWO_AT_ONCE = ReleasesPolicy(max_in_flight=2, settle_seconds=30)
ONE_STAYS = ReleasesPolicy(min_released=1)
NO_LIMIT = ReleasesPolicy(min_released=1)
REGISTERED = tuple(create(ONE, CARDS[instance], card()) for instance in (L, M))


def ready(instance: InstanceId) -> Call:
    return passes(instance, ONE_AT_ONCE)


BOTH_READY = (*REGISTERED, hold_rollout(), ready(L), ready(M), lift_rollout_hold())
BOTH_RELEASED = (*REGISTERED, passes(L, NO_LIMIT), passes(M, NO_LIMIT))

SCENARIOS: dict[str, tuple[ReleasesPolicy, tuple[Call, ...], dict[str, tuple[Call, ...]]]] = {
    "two last verdicts at once": (ONE_AT_ONCE, REGISTERED, {"one": (ready(L),), "two": (ready(M),)}),
    "two proxies drain at once": (
        ONE_AT_ONCE,
        BOTH_READY,
        {
            "one": (reconciles(L, ONE_AT_ONCE), reconciles(M, ONE_AT_ONCE)),
            "two": (reconciles(M, ONE_AT_ONCE), reconciles(L, ONE_AT_ONCE)),
        },
    ),
    "a verdict and an override at once": (
        ONE_AT_ONCE,
        REGISTERED,
        {"one": (ready(L),), "two": (override(M, ONE_AT_ONCE),)},
    ),
    "the next is released while the first is withdrawn": (
        ONE_AT_ONCE,
        (*REGISTERED, ready(L), ready(M)),
        {
            "operator": (withdraws(L, ONE_AT_ONCE, by_person=True),),
            "one": (reconciles(M, ONE_AT_ONCE),),
            "two": (reconciles(M, ONE_AT_ONCE),),
        },
    ),
    "the next is released while the first one's lease ends": (
        ONE_AT_ONCE,
        (*REGISTERED, ready(L), ready(M)),
        {
            "etcd": (end_lease(L),),
            "one": (reconciles(M, ONE_AT_ONCE),),
            "two": (reconciles(M, ONE_AT_ONCE),),
        },
    ),
    "there is room while the first is withdrawn": (
        TWO_AT_ONCE,
        (*REGISTERED, ready(L), hold_rollout(), ready(M), lift_rollout_hold()),
        {
            "operator": (withdraws(L, TWO_AT_ONCE, by_person=True),),
            "one": (reconciles(M, TWO_AT_ONCE),),
        },
    ),
    "automation withdraws both at once": (
        ONE_STAYS,
        BOTH_RELEASED,
        {
            "one": (withdraws(L, ONE_STAYS, by_person=False),),
            "two": (withdraws(M, ONE_STAYS, by_person=False),),
        },
    ),
    "automation withdraws one while a person withdraws the other": (
        ONE_STAYS,
        BOTH_RELEASED,
        {
            "one": (withdraws(L, ONE_STAYS, by_person=False),),
            "operator": (withdraws(M, ONE_STAYS, by_person=True),),
        },
    ),
}

NEEDED = {
    ("release", "two last verdicts at once"),
    ("release", "two proxies drain at once"),
    ("withdraw", "automation withdraws both at once"),
    ("withdraw", "automation withdraws one while a person withdraws the other"),
}
"""Where a Txn of this kind that does not compare the budget's revision breaks a guarantee."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_interleaving_keeps_the_limits(name: str) -> None:
    states, fault = _explored(name)
    assert fault is None, str(fault)
    assert states > 10


@pytest.mark.parametrize(("kind", "name"), sorted(NEEDED))
def test_the_budget_has_to_be_compared(kind: str, name: str) -> None:
    _, fault = _explored(name, _without_the_budget(kind))
    assert fault is not None
    assert "never too" in fault.words


def test_a_release_after_the_stop_would_be_found() -> None:
    """The stop is part of the withdrawal: no release of what is like it comes between the two, or after them."""

    def without_rollout_holds(ask: Ask) -> Ask:
        return _changed(ask, "release", lambda key: key == b"\x01greenroom/rollout-holds/" or key == BUDGET)

    _, fault = _explored("there is room while the first is withdrawn", without_rollout_holds)
    assert fault is not None
    assert "never early" in fault.words


def _explored(name: str, change: Change = lambda ask: ask) -> tuple[int, Fault | None]:
    releases, before, acting = SCENARIOS[name]
    actors = tuple(Actor(who, calls) for who, calls in acting.items())
    world = World(_leases(), Story(), ())
    for call in before:
        world, faults = run(world, "before", call, classify)
        assert not faults, faults
    limited = replace(world.story, max_in_flight=releases.max_in_flight, min_released=releases.min_released)
    start = replace(world, story=limited, actors=tuple(At() for _ in actors), path=())
    return explore(actors, start, classify, lambda world: _come_to_rest(world, releases), change)


def _come_to_rest(world: World, releases: ReleasesPolicy) -> Iterator[str]:
    """Nobody acts any more but reconcilers: whoever is ready and stopped by nobody is in, as far as there is room."""
    for instance in (L, M, L, M):
        world, faults = run(world, "reconciler", reconciles(instance, releases), classify)
        yield from faults
    waiting = [
        name
        for name, standing in world.story.instances.items()
        if standing.held and not standing.open_gates and not standing.by_person and not world.story.stopped(name)
    ]
    room = releases.max_in_flight is None or len(world.story.released) < releases.max_in_flight
    if waiting and room:
        yield f"none forgotten: {', '.join(waiting)} waits, and there is room"


def _leases() -> ModelEtcd:
    return ModelEtcd().grant(lease_of(L)).grant(lease_of(M))


def _without_the_budget(kind: str) -> Change:
    return lambda ask: _changed(ask, kind, lambda key: key == BUDGET)


def _changed(ask: Ask, kind: str, left_out: object) -> Ask:
    """The request without the compares of some keys."""
    if ask.kind != kind or not isinstance(ask.request, rpc_pb2.TxnRequest):
        return ask
    assert callable(left_out)
    request = rpc_pb2.TxnRequest()
    request.CopyFrom(ask.request)
    del request.compare[:]
    request.compare.extend(compare for compare in ask.request.compare if not left_out(compare.key))
    return replace(ask, request=request)

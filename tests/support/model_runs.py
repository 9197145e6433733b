"""A scenario run in every interleaving, and what must hold when nobody acts any more."""

from collections.abc import Iterator
from dataclasses import replace

from greenroom.core.keyspace import held_key, lease_of, record_key
from tests.guarantees import none_forgotten, none_left_over
from tests.support.model_actors import reconcile
from tests.support.model_etcd import ModelEtcd
from tests.support.model_explore import At, Change, Fault, World, explore, run
from tests.support.model_fleet import KEYS, WHOLE, L
from tests.support.model_scenario import Scenario
from tests.support.model_scenarios import SCENARIOS
from tests.support.model_workers import look
from tests.support.story import Story


def classify(key: bytes) -> str | None:
    return L if key in KEYS else None


def start(scenario: Scenario) -> World:
    """What is there when the actors begin. AssertionError where it breaks a guarantee already."""
    world = World(ModelEtcd().grant(lease_of(L)), Story(), ())
    for call in scenario.before:
        world, faults = run(world, "before", call, classify)
        assert not faults, faults
    return replace(world, actors=tuple(At() for _ in scenario.actors), path=())


def explored(name: str, change: Change = lambda ask: ask) -> tuple[int, Fault | None]:
    """How many states a scenario has, and the first fault."""
    scenario = SCENARIOS[name]

    def ended(world: World) -> Iterator[str]:
        yield from _come_to_rest(world, change)

    return explore(scenario.actors, start(scenario), classify, ended, change)


def _come_to_rest(world: World, change: Change) -> Iterator[str]:
    """Nobody acts any more but a reconciler; then the owner looks at its keys, and etcd is searched."""
    while True:
        reached, faults = run(world, "reconciler", reconcile(L), classify, change)
        yield from faults
        if faults or reached.etcd is world.etcd:
            break
        world = reached
    for key in KEYS:
        yield from run(world, "owner", look(WHOLE, key), classify)[1]
    yield from none_forgotten(world.story)
    yield from none_left_over(world.story, ((L, key) for key in world.etcd.items if _belongs(key)))


def _belongs(key: bytes) -> bool:
    return key in KEYS or held_key(key) in KEYS or key == record_key(L)

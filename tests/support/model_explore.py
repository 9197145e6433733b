"""Every interleaving of some actors' requests on one model etcd, with the guarantees held against every revision.

An actor is a sequence of calls. A call is a program: a generator that yields one request after another, gets each
answer, and ends with a `Next`. Between any two requests of an actor, any other actor may come first.

The rule: a program decides from nothing but the answers it got. So where an actor stands is told by the states that
answered it, and states that were seen before are not looked at again.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from greenroom.pb.etcd import rpc_pb2
from tests.guarantees import broken
from tests.support.model_etcd import ModelEtcd, Refusal
from tests.support.story import Event, Operation, Story, next_moment


@dataclass(frozen=True, slots=True)
class Ask:
    """One request and which row of the protocol it is. `request`: a Txn, or a function of the state for the rest."""

    kind: str
    request: "rpc_pb2.TxnRequest | Callable[[ModelEtcd], tuple[ModelEtcd, Any]]"
    compares_of_client: int = 0
    """How many of its compares, from the first on, are a client's own."""
    guards: bool = False
    """Whether those are the guard of an Else, instead."""


@dataclass(frozen=True, slots=True)
class Next:
    """How a call ended: what it did, at the revision of its last request, and where its actor goes on."""

    did: tuple[Operation, ...] = ()
    again: bool = False
    carry: Any = None
    """What the next call, or this one when it is made again, starts from."""


Program = Generator[Ask, Any, Next]
Call = Callable[[Any], Program]
Change = Callable[[Ask], Ask]
Classify = Callable[[bytes], str | None]
"""The instance of a public gated key."""


@dataclass(frozen=True, slots=True)
class Actor:
    """`mortal`: its proxy may die at any moment, with everything it had read."""

    name: str
    calls: tuple[Call, ...]
    mortal: bool = False


@dataclass(frozen=True, slots=True)
class At:
    """Where an actor stands: in which call, and what answered the call's requests so far."""

    call: int = 0
    carry: Any = None
    answered_by: tuple[int, ...] = ()
    answers: tuple[Any, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class World:
    """One state of everything."""

    etcd: ModelEtcd
    story: Story
    actors: tuple[At, ...]
    path: tuple[Any, ...] = ()
    """The steps that led here, the last one first: (actor, kind, revision), the steps before."""

    @property
    def key(self) -> tuple[int, Story, tuple[At, ...]]:
        return self.etcd.fingerprint, self.story, self.actors

    def steps(self) -> list[str]:
        found, path = [], self.path
        while path:
            name, kind, revision, path = path
            found.append(f"{name}: {kind} -> revision {revision}")
        return found[::-1]


@dataclass(frozen=True, slots=True)
class Fault:
    """A broken guarantee and the steps that led there."""

    words: str
    steps: tuple[str, ...]

    def __str__(self) -> str:
        return "\n  ".join((self.words, *self.steps))


def explore(
    actors: tuple[Actor, ...],
    start: World,
    classify: Classify,
    at_the_end: Callable[[World], Iterator[str]],
    change: Change = lambda ask: ask,
) -> tuple[int, Fault | None]:
    """How many states there are, and the first fault."""
    explorer = _Explorer(actors, classify, change)
    seen, waiting = {start.key}, [start]
    while waiting:
        world = waiting.pop()
        moves = 0
        for after, faults in explorer.steps(world):
            moves += 1
            if faults:
                return len(seen), Fault("; ".join(faults), tuple(after.steps()))
            if after.key not in seen:
                seen.add(after.key)
                waiting.append(after)
        if not moves and (faults := list(at_the_end(world))):
            return len(seen), Fault("; ".join(faults), tuple(world.steps()))
    return len(seen), None


class _Explorer:
    def __init__(self, actors: tuple[Actor, ...], classify: Classify, change: Change) -> None:
        self._actors, self._classify, self._change = actors, classify, change
        self._asked: dict[tuple[int, At], Ask] = {}

    def steps(self, world: World) -> Iterator[tuple[World, list[str]]]:
        """Every state that one request more leads to, with what it breaks."""
        for index, (actor, at) in enumerate(zip(self._actors, world.actors, strict=True)):
            if at.call < len(actor.calls):
                yield self._step(world, index, actor, at)
                if actor.mortal:
                    yield self._moved(world, index, At(len(actor.calls)), actor.name, "dies"), []

    def _step(self, world: World, index: int, actor: Actor, at: At) -> tuple[World, list[str]]:
        ask = self._asked.get((index, at)) or self._first(index, actor, at)
        etcd, answer = _answered(world.etcd, ask)
        faults: list[str] = []
        try:
            reached, did = self._told(index, actor, at, (world.etcd.fingerprint, answer))
        except AssertionError as error:
            faults, reached, did = [f"{actor.name} cannot go on: {error}"], at, ()
        story = world.story
        events = self._events(world.etcd, etcd)
        if did or events:
            moment = next_moment(story, did, events, etcd.revision)
            faults, story = faults + broken(moment), moment.after
        after = self._moved(replace(world, etcd=etcd, story=story), index, reached, actor.name, ask.kind)
        return after, faults

    def _first(self, index: int, actor: Actor, at: At) -> Ask:
        """The request that an actor makes where it stands, found by letting it go there once more."""
        program = actor.calls[at.call](at.carry)
        ask = next(program)
        for answer in at.answers:
            ask = _resumed(program, answer)
        self._asked[index, at] = changed = self._change(ask)
        return changed

    def _told(self, index: int, actor: Actor, at: At, answer: tuple[int, Any]) -> tuple[At, tuple[Operation, ...]]:
        """Where an actor is after an answer, and what it knows to have done."""
        program = actor.calls[at.call](at.carry)
        next(program)
        try:
            for earlier in at.answers:
                _resumed(program, earlier)
            following = _resumed(program, answer[1])
        except StopIteration as stop:
            ended: Next = stop.value
            return At(at.call if ended.again else at.call + 1, ended.carry), ended.did
        reached = replace(at, answered_by=(*at.answered_by, answer[0]), answers=(*at.answers, answer[1]))
        self._asked[index, reached] = self._change(following)
        return reached, ()

    def _events(self, before: ModelEtcd, after: ModelEtcd) -> list[Event]:
        if after is before:
            return []
        named = ((self._classify(change.key), change) for change in after.changes)
        return [
            Event(after.revision, instance, change.key, change.item.value if change.item else None)
            for instance, change in named
            if instance is not None
        ]

    def _moved(self, world: World, index: int, at: At, name: str, kind: str) -> World:
        actors = (*world.actors[:index], at, *world.actors[index + 1 :])
        return replace(world, actors=actors, path=(name, kind, world.etcd.revision, world.path))


def run(
    world: World, name: str, call: Call, classify: Classify, change: Change = lambda ask: ask
) -> tuple[World, list[str]]:
    """One call made from beginning to end with nobody beside it."""
    alone = _Explorer((Actor(name, (call,)),), classify, change)
    at = replace(world, actors=(At(),))
    found: list[str] = []
    while at.actors[0].call == 0:
        ((at, faults),) = alone.steps(at)
        found += faults
        if faults:
            break
    return replace(at, actors=world.actors), found


def _answered(etcd: ModelEtcd, ask: Ask) -> tuple[ModelEtcd, Any]:
    try:
        return etcd.txn(ask.request) if isinstance(ask.request, rpc_pb2.TxnRequest) else ask.request(etcd)
    except Refusal as refusal:
        return etcd, refusal


def _resumed(program: Program, answer: Any) -> Ask:
    return program.throw(answer) if isinstance(answer, Refusal) else program.send(answer)

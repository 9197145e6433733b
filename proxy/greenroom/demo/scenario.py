"""The story: five workers register; what happens to them is up to gates, an operator, and their leases."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from greenroom.cli.client import ControlClient
from greenroom.cli.instance_list import waits_for
from greenroom.cli.verdict import OUTCOMES, in_words, report_on
from greenroom.cli.words import HELD, REJECTED, RELEASED, hold_id, state_word
from greenroom.client.callers import myself
from greenroom.demo.public import PublicWatcher
from greenroom.demo.timeline import Timeline
from greenroom.demo.workers import SimulatedWorker
from greenroom.pb.control.v1 import control_pb2
from greenroom.pb.control.v1.control_pb2 import Instance, ReportVerdictResponse, RolloutHold

MODEL, ADAPTER = "tiny-chat", "tiny-chat-legal"
GATES = ("smoke", "latency")
SHORT_TTL_SECONDS = 4
"""For the workers that crash: long enough for keepalives on a busy machine, short enough to watch."""
EXPIRY_SECONDS = 30.0
RELEASE_SECONDS = 30.0
"""Both are much longer than it takes: the machine may be busy."""


@dataclass(slots=True)
class Stage:
    """Where the story takes place. `store` is the proxy as workers reach it, `host:port`."""

    store: str
    client: ControlClient
    public: PublicWatcher
    timeline: Timeline
    workers: list[SimulatedWorker] = field(default_factory=list)

    def worker(self, name: str, ttl_seconds: int = 30) -> SimulatedWorker:
        """A new worker, not registered yet."""
        serves_at = f"127.0.0.1:{46001 + len(self.workers)}"
        worker = SimulatedWorker(name, self.store, MODEL, serves_at, ttl_seconds)
        self.workers.append(worker)
        return worker

    def instance(self, worker: SimulatedWorker) -> Instance:
        """As the control API has it."""
        return self.client.instance(f"instances/{worker.instance}")

    def is_listed(self, worker: SimulatedWorker) -> bool:
        """Whether the control API still knows it."""
        return any(instance.id == worker.instance for instance in self.client.instances())

    def verdict(self, worker: SimulatedWorker, gate: str, outcome: str, reason: str) -> ReportVerdictResponse:
        """As `greenroom verdict` gives it."""
        request = report_on(self.instance(worker), gate, OUTCOMES[outcome], reason, "demo-checks")
        answer = self.client.report_verdict(request)
        self.timeline.tell("checks", f"{worker.name}: {in_words(request, answer)}")
        return answer


def play(stage: Stage) -> None:
    """The whole story, once."""
    first = _registers(stage)
    _is_released(stage, first)
    rejected = _is_rejected(stage)
    _waits_for_a_rollout_hold(stage)
    _expire(stage, first)
    stage.timeline.check("nobody ever saw a card of the rejected worker", not stage.public.of(rejected.instance))


def _registers(stage: Stage) -> SimulatedWorker:
    told = stage.timeline
    told.chapter("1. A worker registers: held")
    worker = stage.worker("worker 1", SHORT_TTL_SECONDS)
    created = worker.register(ADAPTER)
    told.tell(worker.name, f"registers {MODEL} and its LoRA adapter {ADAPTER} as instance {worker.instance}")
    told.check("the worker was told that both cards are registered", created)
    own = worker.reads_its_card()
    told.tell(worker.name, "reads its own card back, as it does before it edits taints")
    told.check("the worker reads its own held card", own is not None and own.lease == worker.lease)
    told.tell("etcd", f"shows {len(stage.public.cards())} cards to everybody")
    told.check("no card is public while the worker is held", not stage.public.cards() and not stage.public.sightings)
    instance = stage.instance(worker)
    told.tell("greenroom", f"{state_word(instance.state)}, waits for {waits_for(instance, datetime.now(UTC))}")
    told.check("the control API shows it as held", instance.state == HELD)
    named = list(instance.models) == [MODEL, ADAPTER] and instance.address == worker.serves_at
    told.check("the control API knows its models and its address", named)
    return worker


def _is_released(stage: Stage, worker: SimulatedWorker) -> None:
    told = stage.timeline
    told.chapter("2. Its gates pass: released")
    answer = stage.verdict(worker, "smoke", "passed", "answered 5 of 5 prompts")
    told.check("one gate of two releases nothing", answer.instance.state == HELD and not stage.public.cards())
    answer = stage.verdict(worker, "latency", "passed", "first token after 41 ms")
    told.check("the last gate's verdict releases it", answer.decision == control_pb2.DECISION_RELEASED)
    told.eventually("a watcher on etcd sees the release", lambda: stage.public.of(worker.instance), RELEASE_SECONDS)
    seen = stage.public.of(worker.instance)
    in_order = (worker.card_key, worker.adapter_key(ADAPTER))
    told.check(
        "all cards come in one answer, in the order of registration", [one.appeared for one in seen] == [in_order]
    )
    told.check("all cards come at one revision", bool(seen) and len(seen[0].revisions) == 1)


def _is_rejected(stage: Stage) -> SimulatedWorker:
    told = stage.timeline
    told.chapter("3. A gate fails: rejected")
    worker = stage.worker("worker 2")
    worker.register()
    told.tell(worker.name, f"registers {MODEL} as instance {worker.instance}")
    stage.verdict(worker, "smoke", "failed", "answers in gibberish: the tokenizer does not fit the weights")
    told.check("a failed gate rejects the worker", stage.instance(worker).state == REJECTED)
    told.check("its card stays out of etcd's public keys", worker.card_key not in stage.public.cards())
    return worker


def _waits_for_a_rollout_hold(stage: Stage) -> None:
    told = stage.timeline
    told.chapter("4. An operator stops releases: everything passed, and it waits")
    asked = RolloutHold(reason="incident 4711", actor=myself(), selector=control_pb2.Selector(model=MODEL))
    hold = stage.client.create_rollout_hold(asked)
    told.tell("operator", f"creates rollout hold {hold_id(hold)} for model={MODEL}: {hold.reason}")
    worker = stage.worker("worker 3")
    worker.register()
    told.tell(worker.name, f"registers {MODEL} as instance {worker.instance}")
    answers = [stage.verdict(worker, gate, "passed", "as it should be") for gate in GATES]
    told.check("with all gates passed the rollout hold keeps it", answers[-1].decision == control_pb2.DECISION_QUEUED)
    told.check("its card is not public under the rollout hold", worker.card_key not in stage.public.cards())
    stage.client.lift_rollout_hold(hold.name)
    told.tell("operator", f"lifts rollout hold {hold_id(hold)}")
    released = lambda: stage.instance(worker).state == RELEASED and stage.public.of(worker.instance)  # noqa: E731
    told.eventually("lifting the rollout hold releases it", released, RELEASE_SECONDS)


def _expire(stage: Stage, public: SimulatedWorker) -> None:
    told = stage.timeline
    told.chapter("5. Two workers crash, one held and one public: expired")
    held = stage.worker("worker 4", SHORT_TTL_SECONDS)
    held.register()
    told.tell(held.name, f"registers {MODEL} as instance {held.instance}")
    told.check("the fourth worker is held", stage.instance(held).state == HELD)
    for worker in (held, public):
        worker.crash()
        told.tell(worker.name, f"is killed: its keepalives end, its lease has {SHORT_TTL_SECONDS} s at most")
    told.eventually("the public worker's cards go with its lease", lambda: _gone(stage, public), EXPIRY_SECONDS)
    told.eventually(
        "nothing of either is left in etcd, in the reserved area neither",
        lambda: not any(stage.public.keys_about(worker.instance) for worker in (held, public)),
        EXPIRY_SECONDS,
    )
    told.eventually(
        "the control API has forgotten both",
        lambda: not (stage.is_listed(held) or stage.is_listed(public)),
        EXPIRY_SECONDS,
    )
    told.tell("greenroom", f"no longer lists {held.instance} and {public.instance}")
    told.check("nobody ever saw a card of the worker that crashed while held", not stage.public.of(held.instance))


def _gone(stage: Stage, worker: SimulatedWorker) -> bool:
    return any(worker.card_key in seen.gone for seen in stage.public.of(worker.instance))

"""Where the rollout takes place: etcd, the proxy with its policy, the gate runner, a frontend, a worker, and clients.

The old worker has been there since before the proxy; whatever starts here later starts behind it.
"""

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from greenroom.client import Gate, GateState, Greenroom, Instance, State
from greenroom.demo.timeline import Timeline
from tests.e2e.rollout.clients import Clients
from tests.e2e.rollout.workers import STARTUP_SECONDS, CountedMocker
from tests.e2e.support.dynamo import Dynamo, Frontend, Worker
from tests.e2e.support.store import Store
from tests.support.greenroom import Greenroom as Proxy
from tests.support.http import ask
from tests.support.runners import GateRunner
from tests.support.waiting import wait_for

MODEL = "tiny"
COMPLETION, GOLDEN, PAIR = "completion", "golden", "pair"
STOPPED = "stopped"
"""The runner's word for a check that nobody waits for any more."""
CHECK_SECONDS = 90
"""Much longer than a frontend's start and a check take: the machine may be busy."""
WORDS = r"\Aw\d+( w\d+)+\Z"
"""What tokens of the model folder's vocabulary look like: a mocker answers with other ones each time."""
MEANS = {
    State.REJECTED: ": one failed gate is enough, and stops the others",
    State.RELEASED: ": its cards are public, all at once",
}
"""What a state is to frontends."""
POLICY = """\
rules:
- name: workers
  selector: {component: backend}
  gates: {completion: {timeout_seconds: 600}, golden: {timeout_seconds: 600}}
- name: addresses too
  selector: {component: hand}
  hold: card+instance
  gates: {completion: {timeout_seconds: 600}, golden: {timeout_seconds: 600}}
- name: pairs
  selector: {model: split}
  gates: {pair: {timeout_seconds: 600}}
"""


@dataclass(slots=True)
class Site:
    """Everything that runs, and the timeline that is told."""

    dynamo: Dynamo
    store: Store
    proxy: Proxy
    control: Greenroom
    runner: GateRunner
    frontend: Frontend
    old: CountedMocker
    clients: Clients
    told: Timeline
    stack: ExitStack
    took: list[tuple[str, float]] = field(default_factory=list)
    """Seconds from the last verdict on a worker to the first client that it answered."""

    def new_worker(self, name: str) -> CountedMocker:
        """One more of the model, behind the proxy, which takes its time to start."""
        environment = self.dynamo.environment(self.proxy.url)
        startup = ("--startup-time", str(STARTUP_SECONDS))
        worker = CountedMocker(self.dynamo, self.store, environment, *startup, model=MODEL, name=name)
        self.told.tell(name, "starts behind the proxy")
        self.stack.enter_context(worker)
        self.tell_registered(worker)
        return worker

    def tell_registered(self, worker: CountedMocker) -> None:
        """A mocker does so before it can answer, as an engine may that is not warm yet."""
        slow = f"its engine takes {STARTUP_SECONDS} s more to answer"
        self.told.tell(worker.name, f"registers {MODEL} as instance {worker.instance}; {slow}")
        found = self.control.instance(worker.instance)
        waits = ", ".join(gate.name for gate in found.gates if gate.state is GateState.PENDING)
        self.told.tell("greenroom", f"instance {found.id} is {found.state}, waits for {waits or 'nothing'}")

    def frontends_of(self, worker: Worker) -> list[str]:
        """Where checks of a worker asked: the frontends that the runner started for it alone."""
        started = self.runner.events("frontend.started")
        return [f"{event['url']} ({event['preview']})" for event in started if event["instance"] == worker.instance]

    def runs_of(self, worker: Worker) -> list[str]:
        """The outcomes of all checks of a worker that have ended."""
        ended = self.runner.events("gate.ended")
        return [event["outcome"] for event in ended if event["instance"] == worker.instance]

    def only_gates_asked(self, worker: CountedMocker, *, but: int = 0) -> bool:
        """Whether its own counter has no request beside those of its checks and `but` others.

        Each check asks once; one that was stopped perhaps not.
        """
        outcomes = self.runs_of(worker)
        certain = sum(outcome != STOPPED for outcome in outcomes)
        return certain <= worker.requests() - but <= len(outcomes)

    def operator(self, *arguments: str) -> str:
        """A command of an operator's, which has to succeed."""
        self.told.tell("operator", f"greenroom {shlex.join(arguments)}")
        return self.proxy.must(*arguments)

    def withdraw(self, worker: CountedMocker, reason: str) -> None:
        """By the HTTP port, which takes no time to start."""
        url = f"{self.proxy.http_url}/v1/instances/{worker.instance}:withdraw"
        self.told.tell("operator", f"POST {url}: {reason}")
        answer = ask(url, {"reason": reason, "actor": "operator"})
        assert answer.status == 200, f"the withdrawal is refused: {answer}"

    def expect_golden(self, **expected: str) -> None:
        """What the golden prompt must be answered from now on."""
        write_golden(self.dynamo.folder, **expected)

    def wait_state(self, instance: str, state: State) -> Instance:
        """The instance in that state, with its gates told."""
        self.wait_only_state(instance, state)
        return self._tell_gates(instance)

    def wait_only_state(self, instance: str, state: State) -> None:
        """As `wait_state`, where its gates have been told already."""
        wait_for(lambda: self.control.instance(instance).state is state, CHECK_SECONDS, f"{instance} is {state}")

    def wait_passed(self, instance: str) -> Instance:
        """The instance once every gate has passed, whatever becomes of it."""

        def passed() -> bool:
            return {gate.state for gate in self.control.instance(instance).gates} == {GateState.PASSED}

        wait_for(passed, CHECK_SECONDS, f"the gates of {instance} have passed")
        return self._tell_gates(instance)

    def _tell_gates(self, instance: str) -> Instance:
        found = self.control.instance(instance)
        for gate in found.gates:
            said = f": {gate.reason}" if gate.reason else ""
            self.told.tell("runner", f"gate {gate.name}, attempt {gate.attempt}: {gate.state}{said}")
        self.told.tell("greenroom", f"instance {instance} is {found.state}{MEANS.get(found.state, '')}")
        return found


def gate_of(instance: Instance, name: str) -> Gate:
    gate = instance.gate(name)
    assert gate is not None, f"{instance.id} has no gate {name}"
    return gate


def golden_file(folder: Path) -> Path:
    return folder / "golden.json"


def write_golden(folder: Path, **expected: str) -> None:
    prompt = {"name": "story", "prompt": "hello", **expected}
    golden_file(folder).write_text(json.dumps({"max_tokens": 6, "prompts": [prompt]}))


def check(*arguments: str) -> dict[str, object]:
    """A gate that a built-in check decides."""
    return {"exec": [sys.executable, "-m", "greenroom", "check", *arguments], "timeout_secs": CHECK_SECONDS}


def runner_of(dynamo: Dynamo, proxy: Proxy) -> GateRunner:
    """It starts frontends of its own, in Dynamo's environment, with the settings that the workers have."""
    golden = check("golden", str(golden_file(dynamo.folder)))
    gates = {COMPLETION: check("completion", "--max-tokens", "8"), GOLDEN: golden}
    frontend = f"{dynamo.python} -m dynamo.frontend --http-host 127.0.0.1 --http-port {{port}}"
    settings = {name: value for name, value in dynamo.environment().items() if name != "PATH"}
    return GateRunner(proxy.control, gates, dynamo.folder, "--frontend", frontend, **settings)


@contextmanager
def open_site(dynamo: Dynamo, store: Store, told: Timeline) -> Iterator[Site]:
    """An old worker that serves clients, and everything that a new one will meet."""
    policy = dynamo.folder / "policy.yaml"
    policy.write_text(POLICY)
    direct = dynamo.environment(store.url)
    with ExitStack() as stack:
        old = stack.enter_context(CountedMocker(dynamo, store, direct, model=MODEL, name="old worker"))
        frontend = stack.enter_context(Frontend(dynamo, direct))
        frontend.wait_chat(MODEL)
        told.tell(old.name, f"serves {MODEL} as instance {old.instance}")
        proxy = stack.enter_context(Proxy(store.url, dynamo.folder, arguments=("--policy", str(policy))))
        control = stack.enter_context(Greenroom(proxy.control))
        runner = stack.enter_context(runner_of(dynamo, proxy))
        told.tell("greenroom", f"proxy on {proxy.address}, control on {proxy.control}, gate runner on {runner.url}")
        clients = stack.enter_context(Clients(frontend.url, MODEL))
        told.tell("clients", f"chat with {MODEL}, one request after the other, until the end")
        yield Site(dynamo, store, proxy, control, runner, frontend, old, clients, told, stack)

"""One proxy with 1,000 held instances, and one with 10,000: what each thing costs, side by side.

The rule: what a change costs must not grow with the fleet, and what shows or reads all of it may only grow with it. Of
the figures none passes or fails; but a card that is lost, or becomes public twice, ends the run. Each size has an etcd
and a proxy of its own, and every instance comes through the proxy as a worker does.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from greenroom.pb.control.v1 import control_pb2
from tests.bench import start
from tests.bench.cards import TTL_SECONDS, address, card_key, registration, verdict
from tests.bench.figures import Case, Sample, percentile
from tests.bench.gated import PUT, TXN
from tests.bench.http2 import Connection
from tests.bench.lift import CREATE_HOLD, LIFT, releases
from tests.bench.loader import Job, load
from tests.bench.processor import cpu_seconds, memory_kib
from tests.bench.public_cards import PublicCards
from tests.bench.relayed import Relayed
from tests.bench.session import MICROSECONDS, Session
from tests.bench.visible import VERDICT
from tests.bench.ways import ETCD_ARGUMENTS, GREENROOM, ONE_GATE, port_of
from tests.support.etcd import Etcd
from tests.support.greenroom import Greenroom
from tests.support.http import ask
from tests.support.waiting import wait_for

SUBJECT = "scale"
ROUNDS_AT_MOST = 3
REGISTERING_AT_ONCE = 16
REGISTERING_SECONDS = 300
VERDICTS_PER_SECOND = 50
CELLS = 5
"""Verdicts are given for so many times as long as a cell lasts: few come to one second."""
REPORTERS = 8
LOOKS = 10
"""So often a list, or the metrics, are asked for."""
LIST = "/greenroom.control.v1.Control/ListInstances"
HOLDS = 5
SETTLING_SECONDS = 1.0
"""What a rollout hold sets going has ended by then."""
MILLISECONDS = 1000

Figures = dict[str, float]


def measure(session: Session) -> None:
    """Some rounds of all sizes."""
    if not session.options.wants(SUBJECT):
        return
    for number in range(1, min(session.options.rounds, ROUNDS_AT_MOST) + 1):
        for size in session.options.held:
            session.say(f"round {number}: {SUBJECT} with {size} held")
            with _fleet(session) as fleet:
                figures = fleet.figures(size)
            session.samples.append(Sample(Case(SUBJECT, size), GREENROOM, number, figures))


@contextmanager
def _fleet(session: Session) -> Iterator["_Fleet"]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="greenroom-scale-")))
        etcd = stack.enter_context(Etcd.launch(arguments=ETCD_ARGUMENTS))
        own = replace(session, etcd=etcd, client=stack.enter_context(etcd.client()), folder=folder, ways={})
        yield _Fleet(own, stack.enter_context(Greenroom(etcd.endpoint, folder, arguments=ONE_GATE)))


class _Fleet:
    """One proxy before one etcd, and who registers and asks there."""

    def __init__(self, session: Session, proxy: Greenroom) -> None:
        self._session, self._proxy = session, proxy
        self._control = port_of(proxy.control)

    def figures(self, size: int) -> Figures:
        """Everything that is measured with so many held."""
        return {
            **self._registering(size),
            **self._verdicts(),
            **self._lists(size),
            **self._metrics(),
            **self._rollout_holds(),
            **self._start(size),
        }

    def _registering(self, size: int) -> Figures:
        """Each says where it listens, and registers its card: two calls."""
        memory = memory_kib(self._proxy.pid)
        used, began_at = self._cpu(), time.perf_counter()
        self._register(size)
        seconds, used = time.perf_counter() - began_at, self._cpu() - used
        self._wait_for_held(size)
        return {
            "registration_cpu_us": used / size * MICROSECONDS,
            "registrations_per_second": size / seconds,
            "memory_kib_per_instance": (memory_kib(self._proxy.pid) - memory) / size,
            "memory_mib": memory_kib(self._proxy.pid) / 1024,
        }

    def _register(self, count: int) -> int:
        """So many new workers; the first one's lease, those of the others follow it."""
        first = self._session.leases(count, TTL_SECONDS)
        for path, template in ((PUT, address()), (TXN, registration())):
            job = Job(port_of(self._proxy.address), path, template, REGISTERING_AT_ONCE, REGISTERING_SECONDS)
            made = load(replace(job, first_key=first, limit=count)).made
            assert made == count, f"{made} of {count} workers registered in {REGISTERING_SECONDS} s"
        return first

    def _wait_for_held(self, count: int) -> None:
        """The mirror is as far as the workers are: of a machine that is busy it may be seconds behind."""
        wait_for(lambda: self._held() == count, REGISTERING_SECONDS, f"{count} held instances in the metrics")

    def _held(self) -> int:
        found = re.search(rb'^greenroom_instances{state="held"} (\S+)$', self._scrape(), re.MULTILINE)
        return int(float(found[1])) if found else 0

    def _verdicts(self) -> Figures:
        """Of instances beside the others, so that as many are held as before."""
        seconds = self._session.options.seconds * CELLS
        count = int(seconds * VERDICTS_PER_SECOND)
        first = self._register(count)
        leases = range(first, first + count)
        with PublicCards(self._session.etcd.port) as public:
            used = self._cpu()
            due = self._report(leases)
            seen = public.wait_for([card_key(lease) for lease in leases])
            used = self._cpu() - used
        counted = releases(self._proxy.http_url)
        assert counted == count, f"{counted} releases are counted, of {count} instances"
        latencies = sorted(at - expected for at, expected in zip(seen, due, strict=True))
        return {
            "verdict_cpu_us": used / count * MICROSECONDS,
            "verdict_p50_ms": percentile(latencies, 50) * MILLISECONDS,
            "verdict_p99_ms": percentile(latencies, 99) * MILLISECONDS,
        }

    def _report(self, leases: range) -> list[float]:
        """One verdict every 20 ms, whether those before are answered or not; when each was due."""
        reporters = [Connection(self._control, VERDICT) for _ in range(REPORTERS)]
        begin = time.perf_counter()
        due = [begin + number / VERDICTS_PER_SECOND for number in range(len(leases))]
        for number, lease in enumerate(leases):
            if number >= REPORTERS:
                _released(reporters[number % REPORTERS].end())
            time.sleep(max(0.0, due[number] - time.perf_counter()))
            reporters[number % REPORTERS].send(verdict().filled(lease, 0))
        for reporter in reporters[: len(leases)]:
            _released(reporter.end())
            reporter.close()
        return due

    def _lists(self, size: int) -> Figures:
        whole, used = time.perf_counter(), self._cpu()
        shown = self._all_pages()
        used, whole = self._cpu() - used, time.perf_counter() - whole
        assert shown >= size, f"{shown} instances are listed, and {size} are held"
        with Connection(self._control, LIST) as reader:
            page = self._looks(lambda: reader.call(control_pb2.ListInstancesRequest().SerializeToString()))
            nobody = control_pb2.ListInstancesRequest(namespace="nobody").SerializeToString()
            filtered = self._looks(lambda: reader.call(nobody))
        return {
            **_named("list_page", page),
            **_named("list_filtered", filtered),
            "list_all_s": whole,
            "list_all_cpu_us_per_instance": used / shown * MICROSECONDS,
        }

    def _all_pages(self) -> int:
        """How many instances a reader of the whole list is shown."""
        request, shown = control_pb2.ListInstancesRequest(), 0
        with Connection(self._control, LIST) as reader:
            while True:
                page = control_pb2.ListInstancesResponse.FromString(reader.call(request.SerializeToString()))
                shown += len(page.instances)
                request.page_token = page.next_page_token
                if not page.next_page_token:
                    return shown

    def _metrics(self) -> Figures:
        return _named("scrape", self._looks(self._scrape))

    def _scrape(self) -> bytes:
        return ask(f"{self._proxy.http_url}/metrics").body

    def _rollout_holds(self) -> Figures:
        """One that stops nobody comes and goes: everybody is looked at, and meanwhile workers' calls want answers."""
        hold = control_pb2.RolloutHold(reason="bench", actor="bench", selector=control_pb2.Selector(model="nobody"))
        used = self._cpu()
        with Relayed(port_of(self._proxy.address)) as relayed:
            for number in range(HOLDS):
                create = control_pb2.CreateRolloutHoldRequest(rollout_hold=hold, rollout_hold_id=f"bench-{number}")
                _call(self._control, CREATE_HOLD, create.SerializeToString())
                lift = control_pb2.LiftRolloutHoldRequest(name=f"rolloutHolds/bench-{number}")
                _call(self._control, LIFT, lift.SerializeToString())
            time.sleep(SETTLING_SECONDS)
        return {
            "hold_cpu_ms": (self._cpu() - used) / HOLDS * MILLISECONDS,
            "longest_relayed_ms": relayed.longest_seconds * MILLISECONDS,
        }

    def _start(self, size: int) -> Figures:
        one = start.started(self._session.etcd, self._session.folder, size)
        return {"ready_s": one.ready_seconds, "ready_cpu_us_per_instance": one.cpu_seconds / size * MICROSECONDS}

    def _looks(self, look: Callable[[], bytes]) -> tuple[float, float]:
        """The median's seconds, and the processor time of one."""
        used, seconds = self._cpu(), []
        for _ in range(LOOKS):
            began_at = time.perf_counter()
            look()
            seconds.append(time.perf_counter() - began_at)
        return percentile(sorted(seconds), 50), (self._cpu() - used) / LOOKS

    def _cpu(self) -> float:
        return cpu_seconds(self._proxy.pid)


def _call(port: int, path: str, message: bytes) -> bytes:
    with Connection(port, path) as connection:
        return connection.call(message)


def _released(answer: bytes) -> None:
    decision = control_pb2.ReportVerdictResponse.FromString(answer).decision
    assert decision == control_pb2.DECISION_RELEASED, f"a last verdict led to {control_pb2.Decision.Name(decision)}"


def _named(name: str, looks: tuple[float, float]) -> Figures:
    seconds, used = looks
    return {f"{name}_ms": seconds * MILLISECONDS, f"{name}_cpu_ms": used * MILLISECONDS}

"""One run: what was asked for, the etcd and the four ways before it, and the samples so far.

The rule: subjects take turns here and never run side by side, and what one has written is gone before the next begins.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from greenroom.pb.etcd import rpc_pb2
from tests.bench.figures import Case, Sample
from tests.bench.loader import Job, Loaded, load
from tests.bench.templates import FIRST_LEASE, Template, template_of
from tests.bench.ways import ETCD_ARGUMENTS, WAYS, Way, open_way
from tests.support.client import EtcdClient
from tests.support.etcd import Etcd

MICROSECONDS = 1_000_000
SET_UP_CONNECTIONS = 16
SET_UP_SECONDS = 60
COMPACTION_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Options:
    """How long and of what."""

    rounds: int = 5
    seconds: float = 2.0
    warm_up_seconds: float = 0.25
    connections: tuple[int, ...] = (1, 16, 64)
    idle_clients: tuple[int, ...] = (1000, 5000)
    held_at_start: int = 2000
    held: tuple[int, ...] = (1000, 10_000)
    lifted: int = 1000
    only: tuple[str, ...] = ()

    def wants(self, subject: str) -> bool:
        return not self.only or subject in self.only


@dataclass
class Session:
    """What the subjects share."""

    options: Options
    etcd: Etcd
    client: EtcdClient
    folder: Path
    ways: dict[str, Way] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    _numbers: int = 0
    _leases: int = FIRST_LEASE
    _forgotten: int = 0

    def rounds(self) -> Iterator[int]:
        yield from range(1, self.options.rounds + 1)

    def order(self, round_number: int, names: Sequence[str] = WAYS) -> list[str]:
        """Another first way in each round, and every other round backwards: no way always follows the same one."""
        shift = round_number % len(names)
        turned = [*names[shift:], *names[:shift]]
        return turned[::-1] if round_number % 2 else turned

    def numbers(self, count: int) -> int:
        """The first of so many numbers that no call has had."""
        first, self._numbers = self._numbers, self._numbers + count
        return first

    def lease(self, ttl_seconds: int) -> int:
        """Grants one lease, straight at etcd, and returns its id."""
        return self.client.grant(ttl_seconds, self._new_leases(1))

    def leases(self, count: int, ttl_seconds: int) -> int:
        """Grants so many leases, straight at etcd; the id of the first, the others follow it."""
        first = self._new_leases(count)
        granting = template_of(
            lambda key, _: rpc_pb2.LeaseGrantRequest(ID=key, TTL=ttl_seconds).SerializeToString(),
            keys_are_leases=True,
        )
        self.set_up("/etcdserverpb.Lease/LeaseGrant", granting, count, first)
        return first

    def revoke(self, first: int, count: int) -> None:
        """Ends those leases, and what is on them."""
        revoking = template_of(
            lambda key, _: rpc_pb2.LeaseRevokeRequest(ID=key).SerializeToString(), keys_are_leases=True
        )
        self.set_up("/etcdserverpb.Lease/LeaseRevoke", revoking, count, first)

    def set_up(self, path: str, template: Template, count: int, first_key: int, port: int | None = None) -> None:
        """So many calls as fast as they go, straight at etcd or where else the port leads."""
        connections = min(count, SET_UP_CONNECTIONS)
        job = Job(port or self.etcd.port, path, template, connections, SET_UP_SECONDS, first_key=first_key, limit=count)
        made = load(job).made
        assert made == count, f"{path}: {made} of {count} calls in {SET_UP_SECONDS} s"

    def record(self, case: Case, way: Way, round_number: int, loaded: Loaded) -> None:
        """A sample of a load; processor time is that of the way's own process, and etcd's beside it."""
        if not loaded.calls:
            raise AssertionError(f"{case} through {way.name}: no call ended in {loaded.seconds:.1f} s")
        figures = {
            "calls_per_second": loaded.calls / loaded.seconds,
            "p50_us": loaded.p50_us,
            "p99_us": loaded.p99_us,
            "others_cpu_percent": loaded.others_cpu_seconds / loaded.seconds * 100,
            "etcd_cpu_us": loaded.cpu_seconds[0] / loaded.calls * MICROSECONDS,
        }
        if way.pid is not None:
            figures["cpu_us"] = loaded.cpu_seconds[1] / loaded.calls * MICROSECONDS
        self.samples.append(Sample(case, way.name, round_number, figures))

    def pids(self, way: Way) -> tuple[int, ...]:
        """Whose time a load takes: etcd's, and then the way's own."""
        return (self.etcd.pid,) if way.pid is None else (self.etcd.pid, way.pid)

    def forget(self) -> None:
        """Has etcd give up all history, and waits until it has."""
        revision = self.client.revision()
        if revision > self._forgotten:  # etcd refuses to do so twice.
            request = rpc_pb2.CompactionRequest(revision=revision, physical=True)
            self.client.kv.Compact(request, timeout=COMPACTION_SECONDS)
            self._forgotten = revision

    def say(self, what: str) -> None:
        """Progress, beside the table."""
        print(what, file=sys.stderr, flush=True)

    def _new_leases(self, count: int) -> int:
        first, self._leases = self._leases, self._leases + count
        return first


@contextmanager
def open_session(options: Options) -> Iterator[Session]:
    """An etcd and four ways to it, and nothing left of them afterwards."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="greenroom-bench-")))
        etcd = stack.enter_context(Etcd.launch(arguments=ETCD_ARGUMENTS))
        session = Session(options, etcd, stack.enter_context(etcd.client()), folder)
        for name in WAYS:
            session.ways[name] = stack.enter_context(open_way(name, etcd, folder))
        yield session

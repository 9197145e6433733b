"""Three proxies of one etcd: one is stopped for 20 s, one is cut off from etcd, one is killed, and another goes on.

The rule: whoever was away decides nothing by what it knew before. What was decided meanwhile stands, each card that is
released becomes public once, and what was acknowledged is there. The policies differ: the record has each instance's.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import pytest

from greenroom.pb.control.v1 import control_pb2
from greenroom.pb.etcd import rpc_pb2
from tests.support.client import prefix_end
from tests.support.control import decision, error_reason
from tests.support.endpoints import PROXIES, Proxy, proxied_endpoint, wipe_beside_proxies
from tests.support.etcd import Etcd
from tests.support.forwarders import Network
from tests.support.greenroom import Greenroom
from tests.support.policies import policy_file, rule
from tests.support.waiting import wait_for
from tests.support.watching import WatchLog
from tests.support.workers import CARDS, Worker

AWAY_SECONDS = 20.0
"""Longer than a proxy counts as present (15 s) and than any call of its own may take (5 s), shorter than a lease."""
LEASE_SECONDS = 90
GONE_SECONDS = 25
BACK_SECONDS = 20
LATE_SECONDS = 60
"""How long a caller waits who asked the proxy that is stopped."""
IN_VAIN_SECONDS = 10
UNDER_WAY = 40
NETWORK = "etcd"


class Replicas:
    """The etcd, the way to it that can be cut, and the proxies; the last two can be away, each in its way."""

    def __init__(self, etcd: Etcd, network: Network, going_on: Proxy, stopped: Proxy, cut_off: Proxy) -> None:
        self.etcd, self.network = etcd, network
        self.going_on, self.stopped, self.cut_off = going_on, stopped, cut_off
        self.all = (going_on, stopped, cut_off)

    def watch(self) -> WatchLog:
        """Everything that the public sees of cards from here on."""
        return self.going_on.public.watch(CARDS, prefix_end(CARDS))

    def registered(self) -> int:
        """How many proxies etcd knows."""
        return self.going_on.public.prefix(PROXIES, count_only=True).count

    def agree(self) -> bool:
        """Whether all are ready, registered, and tell the same of every instance."""
        if self.registered() < len(self.all) or not all(each.greenroom.is_ready() for each in self.all):
            return False
        told = [{one.id: one.state for one in each.control.instances()} for each in self.all]
        return told[0] != {} and all(one == told[0] for one in told)


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    folder = tmp_path_factory.mktemp("replicas")
    with Etcd.launch() as etcd, Network() as network:
        port = network.forward(NETWORK, etcd.port, lambda: 0)
        with (
            _proxy(etcd.endpoint, folder, "going-on", "latency") as going_on,
            _proxy(etcd.endpoint, folder, "stopped", "latency") as stopped,
            _proxy(f"http://127.0.0.1:{port}", folder, "cut-off", "accuracy") as cut_off,
            proxied_endpoint(etcd, going_on) as one,
            proxied_endpoint(etcd, stopped) as other,
            proxied_endpoint(etcd, cut_off) as third,
        ):
            yield Replicas(etcd, network, one, other, third)


@pytest.fixture
def replicas(launched: Replicas) -> Replicas:
    wipe_beside_proxies(launched.etcd)
    return launched


def _proxy(upstream: str, folder: Path, name: str, gate: str) -> Greenroom:
    """It asks for `smoke`, and for a gate that not everybody asks for."""
    policy = folder / f"{name}.yaml"
    policy.write_text(policy_file(rule("", "smoke", gate)))
    return Greenroom(upstream, folder, name=name, arguments=("--policy", str(policy)))


class Fleet:
    """Workers of one proxy, each in the middle of something when it is away; `last` is the gate still to be passed."""

    def __init__(self, via: Proxy, last: str) -> None:
        self.via, self.last = via, last
        self.waits, self.released, self.edited, self.withdrawn, self.undecided, self.frozen, self.retried = (
            Worker(via.client, component=f"{via.greenroom.name}-{number}", ttl_seconds=LEASE_SECONDS)
            for number in range(7)
        )
        self.all = (
            *(self.waits, self.released, self.edited, self.withdrawn, self.undecided, self.frozen, self.retried),
        )
        for worker in self.all:
            assert worker.register().succeeded
            outcome = "failed" if worker is self.retried else "passed"
            via.control.verdict(worker.instance, "smoke", outcome)
        assert via.control.verdict(self.withdrawn.instance, last, "passed") == "RELEASED"
        # So its proxy remembers it as one whose card is public.
        assert via.client.put(self.withdrawn.card_key, self.withdrawn.card(taints=["silver"]), self.withdrawn.lease)

    def decided_by(self, other: Proxy) -> None:
        """What another proxy does with them meanwhile."""
        for worker in (self.released, self.edited):
            assert other.control.verdict(worker.instance, self.last, "passed") == "RELEASED"
        other.control.decide("WithdrawInstance", self.withdrawn.instance)
        other.control.decide("RetryGates", self.retried.instance)
        selector = control_pb2.Selector(component=self.frozen.component)
        hold = control_pb2.RolloutHold(reason="an incident", actor="tests", selector=selector)
        request = control_pb2.CreateRolloutHoldRequest(rollout_hold=hold, rollout_hold_id=self.frozen.component)
        other.control.stub.CreateRolloutHold(request, timeout=BACK_SECONDS)

    def ask(self, timeout_seconds: float) -> "Asked":
        """What its workers and reporters ask of their proxy, who know nothing of all that."""
        return Asked(self, timeout_seconds)

    def check(self, public: WatchLog) -> None:
        """What the public saw of each, from the beginning on, and that their leases live."""
        seen = {worker: [change for change, key in public.changes if key == worker.card_key] for worker in self.all}
        once, nothing = ["PUT"], list[str]()
        assert seen == {
            self.waits: nothing,
            self.released: once,
            self.edited: [*once, "PUT"],
            self.withdrawn: [*once, "PUT", "DELETE"],
            self.undecided: once,
            self.frozen: nothing,
            self.retried: nothing,
        }
        for worker in self.all:
            assert worker.client.keep_alive_once(worker.lease).TTL == LEASE_SECONDS
        for worker in (self.waits, self.withdrawn, self.frozen, self.retried):
            assert self.via.held(worker) == [worker.card_key]
        everybody, here = self.via.public.prefix(CARDS), self.via.client.prefix(CARDS)
        assert [kv.key for kv in here.kvs] == [kv.key for kv in everybody.kvs]


class Asked:
    """Calls to a proxy, sent all at once."""

    def __init__(self, fleet: Fleet, timeout_seconds: float) -> None:
        self.fleet = fleet
        control, last = fleet.via.control, fleet.last
        self.stale = control.verdict_under_way(fleet.retried.instance, "smoke", "passed", 1, timeout_seconds)
        self.again, self.undecided, self.frozen = (
            control.verdict_under_way(worker.instance, last, "passed", 1, timeout_seconds)
            for worker in (fleet.released, fleet.undecided, fleet.frozen)
        )
        self.edits = [
            worker.client.kv.Put.future(
                rpc_pb2.PutRequest(key=worker.card_key, value=worker.card(taints=["gold"]), lease=worker.lease),
                timeout=timeout_seconds,
            )
            for worker in (fleet.edited, fleet.withdrawn)
        ]

    def check_answered(self) -> None:
        """Each by what is in etcd, and not by what the proxy knew."""
        with pytest.raises(grpc.RpcError) as refused:
            decision(self.stale)
        assert error_reason(refused.value) == "STALE_ATTEMPT"
        assert decision(self.again) == "RELEASED"
        assert decision(self.undecided) == "RELEASED"
        assert decision(self.frozen) == "QUEUED"
        for edit in self.edits:
            assert edit.result().header.revision > 0
        for worker in (self.fleet.edited, self.fleet.withdrawn):
            assert worker.read().value == worker.card(taints=["gold"])

    def check_in_vain(self) -> None:
        """Everybody is told that it came to nothing."""
        for call in (self.stale, self.again, self.undecided, self.frozen, *self.edits):
            with pytest.raises(grpc.RpcError) as refused:
                call.result()
            assert refused.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


@pytest.mark.timeout(240)
def test_who_was_stopped_or_cut_off_for_twenty_seconds_takes_up_what_another_one_did(replicas: Replicas) -> None:
    """A machine stalls, a switch dies, and in the midst of it people decide at the third proxy.

    Whoever asks the stalled one waits, and is answered late; whoever asks the one that is cut off is told, and asks
    again. Neither shows anybody who is held, releases anybody twice, or counts a verdict for what it was not about.
    """
    with replicas.watch() as public:
        waiting, told = Fleet(replicas.stopped, "latency"), Fleet(replicas.cut_off, "accuracy")
        _stop(replicas.stopped)
        replicas.network.cut(NETWORK)
        began = time.monotonic()
        waiting.decided_by(replicas.going_on)
        told.decided_by(replicas.going_on)
        late = waiting.ask(LATE_SECONDS)
        told.ask(IN_VAIN_SECONDS).check_in_vain()
        wait_for(lambda: replicas.registered() == 1, GONE_SECONDS, "the two count as gone")
        wait_for(lambda: not replicas.cut_off.greenroom.is_ready(), GONE_SECONDS, "it says that it is not ready")
        time.sleep(max(began + AWAY_SECONDS - time.monotonic(), 0))
        replicas.network.heal(NETWORK)
        replicas.stopped.greenroom.send_signal(signal.SIGCONT)
        late.check_answered()
        wait_for(replicas.agree, BACK_SECONDS, "all are back, and tell the same")
        told.ask(IN_VAIN_SECONDS).check_answered()
        public.wait_revision(replicas.going_on.public.put(CARDS + b"the/end").header.revision)
        for fleet in (waiting, told):
            fleet.check(public)
    for proxy in (replicas.stopped, replicas.cut_off):
        assert "Traceback" not in proxy.greenroom.log()


def _stop(proxy: Proxy) -> None:
    proxy.greenroom.send_signal(signal.SIGSTOP)
    # Its threads stop one by one, and until the last of them has it may still do something.
    os.waitid(os.P_PID, proxy.greenroom.pid, os.WSTOPPED | os.WNOWAIT)


def test_a_proxy_that_is_killed_in_the_midst_of_verdicts_and_registrations_leaves_nothing_half(
    replicas: Replicas,
) -> None:
    """What it acknowledged is there; what it did not is asked of another one, which finds it done or does it."""
    killed, other = replicas.stopped, replicas.going_on
    judged = [killed.held_worker() for _ in range(UNDER_WAY)]
    growing = [killed.held_worker() for _ in range(UNDER_WAY)]
    for worker in judged:
        assert killed.control.verdict(worker.instance, "smoke", "passed", 1) == "RECORDED"
    with replicas.watch() as public:
        verdicts = [
            killed.control.verdict_under_way(worker.instance, "latency", "passed", 1, LATE_SECONDS) for worker in judged
        ]
        adapters = [
            killed.client.kv.Put.future(
                rpc_pb2.PutRequest(key=worker.lora_key(), value=worker.lora_card(), lease=worker.lease),
                timeout=LATE_SECONDS,
            )
            for worker in growing
        ]
        assert decision(verdicts[0]) == "RELEASED"
        killed.greenroom.kill()
        for worker, call in zip(growing, adapters, strict=True):
            with suppress(grpc.RpcError):
                assert call.result().header.revision > 0
                assert other.held(worker) == [worker.card_key, worker.lora_key()]
        for worker, call in zip(judged, verdicts, strict=True):
            with suppress(grpc.RpcError):
                assert decision(call) == "RELEASED"
                assert other.public.get(worker.card_key) is not None
            assert other.control.verdict(worker.instance, "latency", "passed", 1) == "RELEASED"
        public.wait_revision(other.public.put(CARDS + b"the/end").header.revision)
        assert sorted(public.changes[:-1]) == sorted(("PUT", worker.card_key) for worker in judged)
    killed.greenroom.start()
    wait_for(replicas.agree, BACK_SECONDS, "all are back, and tell the same")

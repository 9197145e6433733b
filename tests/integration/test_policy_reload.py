"""A policy that changes under a running proxy: no connection is dropped, and what is held keeps what its record says.

The rule: a wrong file changes nothing, and is told of wherever an operator looks.
"""

import json
import queue
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from greenroom.pb.control.v1 import control_pb2
from greenroom.pb.etcd import rpc_pb2
from greenroom.store.presence import PROXIES
from tests.support.crowd_figures import proxy_metric
from tests.support.endpoints import Proxy
from tests.support.etcd import Etcd
from tests.support.http import ask
from tests.support.policies import policy_file, rule
from tests.support.waiting import wait_for

CARDS = b"v1/mdc/"
CALL_SECONDS = 20


class Reloading:
    """A proxy and its policy file, which everything of this test may rewrite."""

    def __init__(self, proxy: Proxy, path: Path) -> None:
        self.proxy, self.path = proxy, path

    def write(self, text: str) -> None:
        """In one step: nobody must read half a file."""
        new = self.path.with_suffix(".new")
        new.write_text(text)
        new.replace(self.path)

    def policy(self) -> control_pb2.Policy:
        return self.proxy.control.stub.GetPolicy(control_pb2.GetPolicyRequest(), timeout=CALL_SECONDS)

    def told(self) -> dict[str, object]:
        """What /ready says of the policy; the proxy is ready whatever that is."""
        answer = ask(f"{self.proxy.greenroom.http_url}/ready")
        assert answer.status == 200
        told: dict[str, object] = answer.json["policy"]
        return told

    def gates(self, instance: str) -> list[str]:
        return [gate.gate for gate in self.proxy.control.instance(instance).gates]

    def after(self, change: Callable[[], object]) -> None:
        """Returns once another policy is in force than before the change."""
        before = self.policy().digest
        change()
        wait_for(lambda: self.policy().digest != before, describe="another policy is in force")


@pytest.fixture
def launch(launch_proxy: Callable[..., Proxy], own_etcd: Etcd, tmp_path: Path) -> Callable[..., Reloading]:
    """A proxy whose policy asks everybody for these gates."""

    def launched(*gates: str, name: str = "one") -> Reloading:
        path = tmp_path / f"{name}.yaml"
        path.write_text(policy_file(rule("all", *gates)))
        return Reloading(launch_proxy(own_etcd, name=name, arguments=("--policy", str(path))), path)

    return launched


@contextmanager
def kept_alive(proxy: Proxy, lease: int) -> Iterator[Callable[[], int]]:
    """One open keepalive stream: each call of what is yielded is one more answer on it, the TTL."""
    requests: queue.SimpleQueue[rpc_pb2.LeaseKeepAliveRequest | None] = queue.SimpleQueue()
    answers = proxy.client.lease.LeaseKeepAlive(iter(requests.get, None))

    def once() -> int:
        requests.put(rpc_pb2.LeaseKeepAliveRequest(ID=lease))
        return int(next(answers).TTL)

    try:
        yield once
    finally:
        requests.put(None)
        answers.cancel()


def test_streams_stay_open_and_each_instance_keeps_the_gates_that_it_began_with(
    launch: Callable[..., Reloading],
) -> None:
    one = launch("smoke")
    proxy = one.proxy
    early = proxy.held_worker()
    opened = proxy_metric(proxy, "greenroom_connections_opened_total")
    with proxy.client.watch(CARDS, b"v1/mdc0") as watch, kept_alive(proxy, early.lease) as keep_alive:
        assert keep_alive() > 0

        def hang_up() -> None:
            one.write(policy_file(rule("all", "latency")))
            proxy.greenroom.send_signal(signal.SIGHUP)

        one.after(hang_up)
        late = proxy.held_worker()
        assert (one.gates(early.instance), one.gates(late.instance)) == (["smoke"], ["latency"])
        assert proxy.control.verdict(early.instance, "smoke", "passed") == "RELEASED"
        assert proxy.control.verdict(late.instance, "latency", "passed") == "RELEASED"
        watch.wait_events(2)
        assert watch.changes == [("PUT", early.card_key), ("PUT", late.card_key)]
        assert keep_alive() > 0
    assert proxy_metric(proxy, "greenroom_connections_opened_total") == opened
    metrics = ask(f"{proxy.greenroom.http_url}/metrics").body.decode()
    assert 'greenroom_verdicts_total{gate="latency",outcome="passed"} 1.0' in metrics


def test_a_file_that_is_swapped_in_by_a_symbolic_link_is_noticed(
    launch_proxy: Callable[..., Proxy], own_etcd: Etcd, tmp_path: Path
) -> None:
    """As Kubernetes changes a mounted ConfigMap: the link that the file's link leads through is replaced."""
    for version, gate in (("1", "smoke"), ("2", "latency")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "policy.yaml").write_text(policy_file(rule("all", gate)))
    (tmp_path / "data").symlink_to("1")
    (tmp_path / "policy.yaml").symlink_to("data/policy.yaml")
    proxy = launch_proxy(own_etcd, arguments=("--policy", str(tmp_path / "policy.yaml")))
    one = Reloading(proxy, tmp_path / "policy.yaml")

    def swap() -> None:
        (tmp_path / "new").symlink_to("2")
        (tmp_path / "new").rename(tmp_path / "data")

    one.after(swap)
    assert one.gates(proxy.held_worker().instance) == ["latency"]


NOT_TAKEN = {
    "line 2: rules[0].gates.smoke.timeout: is not a field": "rules:\n- gates: {smoke: {timeout: 1}}\n",
    "cannot change while proxies run": "templates: [{pattern: 'v1/mdc/{instance}'}]\n" + policy_file(rule("all")),
}


def test_a_file_that_is_not_taken_is_told_of_everywhere_and_changes_nothing(launch: Callable[..., Reloading]) -> None:
    one = launch("smoke")
    before = one.policy()
    for number, (why, text) in enumerate(NOT_TAKEN.items(), 1):
        one.write(text)
        wait_for(lambda: why in one.policy().refusal.reason, describe=f"refused: {why}")  # noqa: B023
        assert (one.policy().digest, one.policy().text) == (before.digest, before.text)
        assert proxy_metric(one.proxy, "greenroom_policy_loaded") == 0
        assert proxy_metric(one.proxy, "greenroom_policy_reload_failures_total") == number
    refusal = one.told()["refusal"]
    assert isinstance(refusal, dict)
    assert refusal["reason"] == one.policy().refusal.reason
    assert "policy.refused" in one.proxy.greenroom.log()
    shown = one.proxy.greenroom.cli("policy", "show")
    assert shown.stdout.splitlines()[0] == f"# digest {before.digest}"
    assert why in shown.stderr
    assert one.gates(one.proxy.held_worker().instance) == ["smoke"]
    one.after(lambda: one.write(policy_file(rule("all", "latency"))))
    assert "refusal" not in one.told()
    assert proxy_metric(one.proxy, "greenroom_policy_loaded") == 1


def test_proxies_see_who_goes_by_another_policy_and_that_it_is_over(
    launch: Callable[..., Reloading], own_etcd: Etcd
) -> None:
    one = launch("smoke")
    two = launch("latency", name="two")
    [peer] = two.policy().peers
    assert (peer.address, peer.digest, peer.differs) == (one.proxy.greenroom.control, one.policy().digest, True)
    assert proxy_metric(two.proxy, "greenroom_policy_differing_proxies") == 1
    assert f"at {peer.address} on" in two.proxy.greenroom.cli("policy", "show").stderr
    log = two.proxy.greenroom.log()
    [warned] = [line for line in log.splitlines() if "policy.differs" in line]
    assert f"digest={two.policy().digest}" in warned
    assert f"other_digest={peer.digest}" in warned
    two.after(lambda: two.write(one.path.read_text()))
    with own_etcd.client() as client:

        def said() -> set[str]:
            return {json.loads(kv.value)["policy"] for kv in client.prefix(PROXIES).kvs}

        wait_for(lambda: said() == {one.policy().digest}, describe="both say the same")
    wait_for(lambda: "policy.agrees" in two.proxy.greenroom.log(), describe="it is told that it is over")
    wait_for(lambda: [peer.differs for peer in one.policy().peers] == [False], describe="the other sees it too")


def test_a_policy_without_limits_lets_the_queue_in(launch: Callable[..., Reloading]) -> None:
    """An operator finds the limit too tight: what waited for its turn has none to wait for any more."""
    one = launch("smoke")
    whole = one.path.read_text()
    one.after(lambda: one.write(f"{whole}\nreleases: {{max_in_flight: 1, settle_seconds: 1h}}\n"))
    first, second = one.proxy.held_worker(), one.proxy.held_worker()
    assert one.proxy.control.pass_gates(first.instance, ("smoke",)) == "RELEASED"
    assert one.proxy.control.pass_gates(second.instance, ("smoke",)) == "QUEUED"
    one.after(lambda: one.write(whole))
    wait_for(lambda: one.proxy.control.state(second.instance) == "RELEASED", 20, "the queue is let in")

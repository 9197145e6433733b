"""The proxy's Deployment works as the page of deploy/ says: its arguments as they stand, before an etcd with TLS.

One proxy for the file, with the access file that the page has its reader make.
"""

import json
import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import grpc
import promql_parser
import pytest
import yaml

from tests.support.certificates import HERE, Authority
from tests.support.deployed import DeployedProxy
from tests.support.manifests import DEPLOY
from tests.support.secure import Party, SecureEtcd
from tests.support.workers import Worker

SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? ", re.MULTILINE)
OF_PROMETHEUS = frozenset({"instance", "job"})


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def proxy(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedProxy]:
    with SecureEtcd(authority) as etcd:
        etcd.start()
        with DeployedProxy(etcd, tmp_path_factory.mktemp("pod"), authority) as proxy:
            yield proxy


@pytest.fixture
def worker(proxy: DeployedProxy, authority: Authority) -> Iterator[Worker]:
    """One with the certificate that worker.yaml gives it."""
    with proxy.client(Party(authority.ca, authority.issue("worker", file="worker"))) as client:
        worker = Worker(client)
        assert worker.register().succeeded
        yield worker
        client.revoke(worker.lease)


def test_it_is_ready_and_live_as_kubelet_asks(proxy: DeployedProxy) -> None:
    assert proxy.probe("readinessProbe").json["ready"]
    assert proxy.probe("livenessProbe").status == 200


def test_it_warns_of_nothing_that_the_page_does_not_explain(proxy: DeployedProxy) -> None:
    """Before anybody has called: of how kubelet mounts its keys."""
    started = list(takewhile(lambda line: line["event"] != "serving", map(json.loads, proxy.log().splitlines())))
    warned = [line["event"] for line in started if line["level"] != "info"]
    assert warned == ["tls.key.open.to.others"] * 3
    assert f"three warnings at its start, `{warned[0]}`" in (DEPLOY / "README.md").read_text()


def test_who_shows_no_certificate_is_no_worker(proxy: DeployedProxy) -> None:
    with proxy.client(proxy.trusting) as client, pytest.raises(grpc.RpcError) as refused:
        client.range(b"v1/mdc/")
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_worker_is_held_until_both_gates_have_passed(proxy: DeployedProxy, worker: Worker) -> None:
    listed = proxy.cli("ann", "instances", "--state", "held")
    assert worker.instance in listed.stdout
    for gate in ("golden", "latency"):
        done = proxy.cli("runner", "verdict", worker.instance, gate, "passed", "--reason", "as it should be")
        assert done.returncode == 0, done.stderr
    assert "RELEASED" in done.stdout


def test_the_runners_token_is_not_a_persons(proxy: DeployedProxy, worker: Worker) -> None:
    refused = proxy.cli("runner", "release", worker.instance, "--override", "--reason", "in a hurry")
    assert refused.returncode == 1
    assert "operator" in refused.stderr
    done = proxy.cli("ann", "release", worker.instance, "--override", "--reason", "in a hurry")
    assert done.returncode == 0, done.stderr


def test_a_preview_is_at_the_pods_own_address(proxy: DeployedProxy, worker: Worker) -> None:
    opened = proxy.cli("runner", "preview", "open", worker.instance, "--only")
    assert opened.returncode == 0, opened.stderr
    host, _, port = opened.stdout.strip().rpartition(":")
    assert host == HERE
    assert 23800 <= int(port) <= 23899


def test_alerts_are_about_metrics_that_there_are(proxy: DeployedProxy) -> None:
    answer = proxy.page("/metrics")
    assert answer.status == 200, "without a token"
    labels: dict[str, set[str]] = {}
    for name, told in SAMPLE.findall(answer.body.decode()):
        labels.setdefault(name, set()).update(re.findall(r"(\w+)=\"", told))
    [group] = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]:
        for selector in selectors(promql_parser.parse(rule["expr"])):
            assert selector.name in labels, f"{rule['alert']}: there is no {selector.name}"
            asked = {matcher.name for matcher in selector.matchers.matchers}
            asked |= set(re.findall(r"\w+", " ".join(re.findall(r"by \((.*?)\)", rule["expr"]))))
            assert asked - OF_PROMETHEUS <= labels[selector.name], rule["alert"]


def selectors(expression: Any) -> Iterator[Any]:
    """The selectors of series in an expression, however deep."""
    if type(expression).__name__ == "VectorSelector":
        yield expression
    for part in ("expr", "lhs", "rhs", "vector_selector", "args"):
        within = getattr(expression, part, None)
        for one in within if isinstance(within, list) else [within]:
            if one is not None:
                yield from selectors(one)

"""The manifests of deploy/kubernetes: Kubernetes takes them, they fit each other, and keep to what the page promises.

No cluster is needed: Kubernetes' schemas come from a package, and the rest is read off the manifests.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.support.manifests import DEPLOY, FILES, Container, Object, container, containers, named, objects

OLDEST, NEWEST = "1.30", kubernetes_validate.latest_version()
PAGE = (DEPLOY / "README.md").read_text()
OURS = [one for one in containers() if one.spec["image"].startswith("greenroom")]
GIVEN = {"etcd": 2379}
"""Services that are the operator's."""


def pods() -> Iterator[tuple[Object, list[Container]]]:
    for deployment in objects("Deployment"):
        own = [one for one in containers() if one.deployment == deployment["metadata"]["name"]]
        yield deployment["spec"]["template"], own


def selected(selector: Object) -> list[Container]:
    """The containers of the pods that a selector's labels select."""
    labels = selector.get("matchLabels", selector)
    assert labels, "would select every pod"
    chosen = [own for template, own in pods() if labels.items() <= template["metadata"]["labels"].items()]
    return [one for own in chosen for one in own]


def texts(within: Any) -> Iterator[str]:
    """Every text in an object, however deep."""
    if isinstance(within, dict):
        within = list(within.values())
    if isinstance(within, list):
        for one in within:
            yield from texts(one)
    elif isinstance(within, str):
        yield within


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_kubernetes_takes_each_object_and_knows_each_field(path: Path, version: str) -> None:
    for one in yaml.safe_load_all(path.read_text()):
        kubernetes_validate.validate(one, version, strict=True)


def test_a_field_that_kubernetes_does_not_know_is_refused() -> None:
    """What the test above is worth: without `strict` a misspelt field passes, and does nothing in a cluster."""
    deployment = named("Deployment", "llama")
    deployment["spec"]["template"]["spec"]["containers"][1]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="readinesProbe"):
        kubernetes_validate.validate(deployment, NEWEST, strict=True)


def test_no_pod_that_serves_is_removed_before_a_new_one_is_ready() -> None:
    for deployment in objects("Deployment"):
        rolling = deployment["spec"]["strategy"]["rollingUpdate"]
        assert rolling == {"maxUnavailable": 0, "maxSurge": 1}, deployment["metadata"]["name"]
        assert deployment["spec"]["replicas"] >= 2
        own = [one for one in containers() if one.deployment == deployment["metadata"]["name"]]
        assert any("readinessProbe" in one.spec for one in own), "is Ready before it is"


def test_the_readiness_of_a_worker_is_its_runners() -> None:
    probed = {
        one.name: one.spec["readinessProbe"]["httpGet"]
        for one in selected({"app.kubernetes.io/name": "llama"})
        if "readinessProbe" in one.spec
    }
    assert probed == {"llama/runner": {"path": "/health", "port": "runner"}}


def test_probes_ask_ports_that_there_are() -> None:
    for one in containers():
        for kind in ("readinessProbe", "livenessProbe"):
            if kind in one.spec:
                assert one.spec[kind]["httpGet"]["port"] in one.ports, f"{one.name}: {kind}"


def test_services_lead_to_ports_that_there_are() -> None:
    for service in objects("Service"):
        ports = {name for one in selected(service["spec"]["selector"]) for name in one.ports}
        asked = {port["targetPort"] for port in service["spec"]["ports"]}
        assert asked <= ports, service["metadata"]["name"]


def test_addresses_are_services_of_the_manifests_or_the_operators() -> None:
    known = {
        service["metadata"]["name"]: {port["port"] for port in service["spec"]["ports"]}
        for service in objects("Service")
    }
    known |= {name: {port} for name, port in GIVEN.items()}
    found = {
        match.groups()
        for text in texts(objects("Deployment"))
        for match in re.finditer(r"https?://([a-z][a-z-]*):(\d+)", text)
    }
    assert found, "there are addresses"
    wrong = {(name, port) for name, port in found if int(port) not in known.get(name, ())}
    assert not wrong


def test_workers_are_told_the_proxies_and_no_etcd() -> None:
    told = {variable["name"]: variable.get("value") for variable in container("llama/worker").spec["env"]}
    assert told["ETCD_ENDPOINTS"] == "https://greenroom:2379"


def test_dynamo_is_told_certificates_as_texts_and_all_three() -> None:
    """Seen with 1.6.1: names of files, or a CA alone, and it never connects."""
    for name, secret in (("llama/worker", "greenroom-worker-tls"), ("frontend/frontend", "frontend-etcd-client")):
        env = container(name).spec["env"]
        told = {one["name"]: one["valueFrom"]["secretKeyRef"] for one in env if one["name"].startswith("ETCD_AUTH_")}
        assert told == {
            f"ETCD_AUTH_{part}": {"name": secret, "key": key}
            for part, key in (("CA", "ca.crt"), ("CLIENT_CERT", "tls.crt"), ("CLIENT_KEY", "tls.key"))
        }
        assert f"| `{secret}` | `tls.crt`, `tls.key`, `ca.crt` |" in PAGE


def test_deployments_and_budgets_select_their_pods() -> None:
    for deployment in objects("Deployment"):
        assert deployment["spec"]["selector"]["matchLabels"].items() <= (
            deployment["spec"]["template"]["metadata"]["labels"].items()
        )
    budgets = objects("PodDisruptionBudget")
    assert {budget["metadata"]["name"] for budget in budgets} == {"greenroom", "llama"}
    for budget in budgets:
        assert {one.deployment for one in selected(budget["spec"]["selector"])} == {budget["metadata"]["name"]}


def test_every_mount_has_its_volume_and_every_volume_its_source() -> None:
    config_maps = {one["metadata"]["name"] for one in objects("ConfigMap")}
    for template, own in pods():
        volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
        mounted = [mount for one in own for mount in one.spec["volumeMounts"]]
        assert {mount["name"] for mount in mounted} == set(volumes)
        assert all("subPath" not in mount for mount in mounted), "a swapped link is not seen through a subPath"
        for volume in volumes.values():
            if "configMap" in volume:
                assert volume["configMap"]["name"] in config_maps
            if "secret" in volume:
                assert f"| `{volume['secret']['secretName']}` |" in PAGE, "the page says what to create"


def test_files_that_arguments_name_are_mounted() -> None:
    for one in containers():
        folders = [mount["mountPath"] for mount in one.spec["volumeMounts"]]
        named_files = [
            found
            for text in texts([one.spec.get("args", []), one.spec.get("env", [])])
            for found in re.findall(r"/etc/[a-z./-]+", text)
        ]
        lost = [file for file in named_files if not any(file.startswith(f"{folder}/") for folder in folders)]
        assert not lost, one.name


@pytest.mark.parametrize("one", OURS, ids=lambda one: one.name)
def test_our_containers_may_do_nothing_that_they_need_not(one: Container) -> None:
    context = {**one.pod["securityContext"], **one.spec["securityContext"]}
    assert context["runAsNonRoot"]
    assert context["readOnlyRootFilesystem"]
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert one.pod["automountServiceAccountToken"] is False
    assert "memory" in one.spec["resources"]["limits"]


def test_policies_let_in_who_is_named_and_at_ports_that_there_are() -> None:
    for policy in objects("NetworkPolicy"):
        if policy["metadata"]["name"] == "etcd":
            continue  # Its pods are the operator's.
        ports = {name for one in selected(policy["spec"]["podSelector"]) for name in one.ports}
        asked = {port["port"] for rule in policy["spec"]["ingress"] for port in rule.get("ports", [])}
        assert {port for port in asked if isinstance(port, str)} <= ports, policy["metadata"]["name"]


def test_the_network_lets_in_whom_the_page_names_and_nobody_else() -> None:
    """A port less, and a rollout stands still; one more, and there is a way round the gates."""
    [previews] = re.findall(r"--preview-ports=(\S+)", " ".join(texts(objects("Deployment"))))
    assert {way for policy in objects("NetworkPolicy") for way in ways(policy)} == {
        *(("greenroom", "etcd", "2379"), ("frontend", "etcd", "2379")),
        *(("etcd", "etcd", "2379"), ("etcd", "etcd", "2380")),
        *(("llama", "greenroom", "etcd"), ("llama", "greenroom", "control"), ("llama", "greenroom", previews)),
        *(("frontend", "llama", "any"), ("llama", "llama", "any")),
        *(("monitoring", "greenroom", "http"), ("monitoring", "llama", "runner")),
    }


def ways(policy: Object) -> Iterator[tuple[str, str, str]]:
    """From whom, to whom, and to which port."""
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    server = who("podSelector", policy["spec"]["podSelector"])
    for rule in policy["spec"]["ingress"]:
        for peer in rule["from"]:
            [(kind, selector)] = peer.items()
            yield from ((who(kind, selector), server, ports_of(one)) for one in rule.get("ports", [{"port": "any"}]))


def who(kind: str, selector: Object) -> str:
    """The Deployment whose pods a selector selects, the operator's etcd, or a namespace."""
    labels = selector["matchLabels"]
    if kind == "namespaceSelector":
        return str(labels["kubernetes.io/metadata.name"])
    if labels == {"app.kubernetes.io/name": "etcd"}:
        return "etcd"
    [deployment] = {one.deployment for one in selected(selector)}
    return deployment


def ports_of(one: Object) -> str:
    return f"{one['port']}-{one['endPort']}" if "endPort" in one else str(one["port"])

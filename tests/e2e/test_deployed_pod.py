"""The example of deploy/ with real Dynamo: the proxy, a worker's pod and a frontend as their manifests start them.

Certificates on every way; one gate is a command, the other a url of the sidecar.
"""

from pathlib import Path

from tests.e2e.support.dynamo import Dynamo, Frontend
from tests.e2e.support.pod import MODEL, VALIDATED_SECONDS, Pod, files_of
from tests.support.certificates import Authority
from tests.support.deployed import DeployedProxy
from tests.support.secure import SecureEtcd
from tests.support.waiting import wait_for

REJECTED, RELEASED = "REJECTED", "RELEASED"


def state_of(pod: Pod) -> str:
    answer = pod.probe("readinessProbe")
    return str(answer.json["validation"]["state"]) if answer.status in (200, 503) else ""


def test_a_pod_that_fails_its_gates_is_not_ready_until_a_retry_passes(dynamo: Dynamo, tmp_path: Path) -> None:
    """A mocker says random words, so the known answers do not fit; then they are mended, as an operator may have to."""
    authority = Authority(tmp_path / "authority")
    (tmp_path / "proxy").mkdir()
    with SecureEtcd(authority) as etcd:
        etcd.start()
        with DeployedProxy(etcd, tmp_path / "proxy", authority) as proxy:
            secrets = {
                "greenroom-worker-tls": files_of(authority.issue("llama.worker", file="worker")),
                "frontend-etcd-client": files_of(authority.issue("frontend", file="frontend")),
                "greenroom-runner-token": {"token": proxy.tokens["runner"]},
            }
            pod = Pod(dynamo, etcd, proxy, secrets, tmp_path / "pod")
            with pod.started(), Frontend(dynamo, pod.frontend_environment()) as public:
                wait_for(lambda: state_of(pod) == REJECTED, VALIDATED_SECONDS, "the golden gate fails")
                assert pod.probe("readinessProbe").status == 503
                assert "Paris" in str(pod.probe("readinessProbe").json["validation"]["reasons"])
                assert pod.probe("livenessProbe").status == 200
                assert MODEL not in public.models()
                (pod.gates / "golden.yaml").write_text("prompts: [{prompt: hello, regex: '.', max_tokens: 4}]\n")
                [instance] = pod.probe("readinessProbe").json["instances"]
                done = proxy.cli("ann", "retry", instance["instance"], "--reason", "these answers fit")
                assert done.returncode == 0, done.stderr
                wait_for(lambda: state_of(pod) == RELEASED, VALIDATED_SECONDS, "both gates pass")
                assert pod.probe("readinessProbe").status == 200
                public.wait_chat(MODEL)

"""The pod of deploy/kubernetes/worker.yaml as processes, and the frontend of frontend.yaml: real Dynamo, no cluster.

The rule: arguments, variables and files are the manifests'. What differs is what must: a mocker instead of an engine,
addresses, ports, and where files lie.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.e2e.support.dynamo import Dynamo
from tests.support.certificates import HERE, Issued
from tests.support.deployed import DeployedProxy
from tests.support.greenroom import PROGRAM, environment, program_in
from tests.support.http import Answer, ask
from tests.support.manifests import Container, container, mounted
from tests.support.ports import free_port
from tests.support.process import Process
from tests.support.secure import SecureEtcd

MODEL = "llama-3-70b"
VALIDATED_SECONDS = 50
_LIMITS = re.compile(r'"\d+"')
_ANY_TIME = '"60000"'
"""How fast this machine is is not what is tested."""


def files_of(issued: Issued) -> dict[str, str]:
    """A Secret of that certificate."""
    return {"tls.crt": issued.cert.read_text(), "tls.key": issued.key.read_text(), "ca.crt": issued.ca.read_text()}


class Pod:
    """Worker, runner and sidecar. `gates` is the folder of the mounted ConfigMap."""

    def __init__(
        self,
        dynamo: Dynamo,
        etcd: SecureEtcd,
        proxy: DeployedProxy,
        secrets: Mapping[str, Mapping[str, str]],
        folder: Path,
    ) -> None:
        self._dynamo, self._secrets, self._folder = dynamo, secrets, folder
        folder.mkdir()
        self._programs = program_in(folder / "bin")
        runner = container("llama/runner")
        self._runner_port = free_port()
        self._texts = {
            "$(POD_IP)": HERE,
            "https://greenroom:2379": f"https://localhost:{proxy.ports[2389]}",
            "https://greenroom:2390": f"https://localhost:{proxy.ports[2390]}",
            "https://etcd:2379": etcd.endpoint,
            f"0.0.0.0:{runner.ports['runner']}": f"{HERE}:{self._runner_port}",
            "127.0.0.1:9100": f"{HERE}:{free_port()}",
            "/opt/dynamo/bin/python": str(dynamo.python),
        }
        folders = mounted(runner, folder, secrets)
        self._texts |= {path: str(place) for path, place in folders.items()}
        self.gates = folders["/etc/gates"]
        for file in self.gates.iterdir():
            file.write_text(self._here(file.read_text()))
        checks = self.gates / "checks.yaml"
        checks.write_text(_LIMITS.sub(_ANY_TIME, checks.read_text()))

    @contextmanager
    def started(self) -> Iterator["Pod"]:
        """All three run in the block."""
        engine = ["-m", "dynamo.mocker", "--model-path", str(self._dynamo.model), "--model-name", MODEL]
        engine += ["--speedup-ratio", "10", "--num-gpu-blocks-override", "512"]
        with ExitStack() as running:
            running.enter_context(self._process("llama/worker", [str(self._dynamo.python), *engine]))
            for name in ("llama/runner", "llama/checks"):
                running.enter_context(self._process(name, [*PROGRAM, *map(self._here, container(name).arguments)]))
            yield self

    def probe(self, kind: str) -> Answer:
        """What kubelet is answered by the runner."""
        asked = container("llama/runner").spec[kind]["httpGet"]
        return ask(f"http://{HERE}:{self._runner_port}{asked['path']}")

    def frontend_environment(self) -> dict[str, str]:
        """Of a public frontend: frontend.yaml's variables."""
        return self._environment(container("frontend/frontend"))

    def _process(self, name: str, command: list[str]) -> Process:
        return Process(name.replace("/", "-"), command, self._folder, self._environment(container(name)))

    def _environment(self, one: Container) -> dict[str, str]:
        """The container's variables on top of the tests' own. The commands of gates find `greenroom` on PATH."""
        own = environment()
        if one.is_ours:
            own["PATH"] = f"{self._programs}:{own['PATH']}"
        else:
            del own["PYTHONPATH"]
        base = {**own, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HOME": str(self._folder)}
        return {**base, **{variable["name"]: self._value(variable) for variable in one.spec.get("env", [])}}

    def _value(self, variable: Mapping[str, object]) -> str:
        match variable:
            case {"value": str(text)}:
                return self._here(text)
            case {"valueFrom": {"secretKeyRef": {"name": str(secret), "key": str(key)}}}:
                return self._secrets[secret][key]
            case _:
                return HERE

    def _here(self, text: str) -> str:
        for there, here in self._texts.items():
            text = text.replace(there, here)
        return text

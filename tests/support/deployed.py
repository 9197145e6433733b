"""The proxy as its Deployment starts it: the container's own arguments, with its mounts as folders of the test.

The rule: nothing of the arguments is left out. What differs is what must: etcd's address, the pod's, free ports, and
where mounted files lie.
"""

import os
import re
import subprocess
from pathlib import Path

from tests.support.access_page import made_by_the_page
from tests.support.certificates import HERE, Authority, Issued
from tests.support.client import EtcdClient
from tests.support.greenroom import CLI_SECONDS, PROGRAM, READY_SECONDS, environment
from tests.support.http import Answer, ask
from tests.support.manifests import container, mounted
from tests.support.ports import free_port
from tests.support.process import Process
from tests.support.secure import Party, SecureEtcd

NAMES = ("greenroom", "localhost")
"""What the page says that the certificate is for."""
_LISTENS = re.compile(r"(--(?:\w+-)?listen)=0\.0\.0\.0:(\d+)")


class DeployedProxy(Process):
    """`ports` are by the container's; `tokens` are those of the page's access file, by caller."""

    def __init__(self, etcd: SecureEtcd, folder: Path, authority: Authority) -> None:
        self._container = container("greenroom/greenroom")
        self.trusting = Party(authority.ca)
        self.ports = {port: free_port() for port in self._container.ports.values()}
        (folder / "page").mkdir()
        access, self.tokens = made_by_the_page(folder / "page")
        given = {
            "greenroom-etcd-client": _files(etcd.party.ca, etcd.party.own),
            "greenroom-tls": _files(authority.ca, authority.issue(*NAMES, file="greenroom")),
            "greenroom-access": {"access.yaml": access},
        }
        self._folders = mounted(self._container, folder, given)
        self._folder = folder
        super().__init__("deployed", [*PROGRAM, *map(self._here, self._container.arguments)], folder, environment())
        self.command[self.command.index("--upstream=https://etcd:2379")] = f"--upstream={etcd.endpoint}"

    def ready(self) -> None:
        self.wait_ready(lambda: self.probe("readinessProbe").status == 200, "is ready", timeout_seconds=READY_SECONDS)

    def probe(self, kind: str) -> Answer:
        """What kubelet is answered."""
        asked = self._container.spec[kind]["httpGet"]
        return self.page(asked["path"], asked["scheme"].lower(), self._container.ports[asked["port"]])

    def page(self, path: str, scheme: str = "https", port: int = 2391) -> Answer:
        return ask(f"{scheme}://localhost:{self.ports[port]}{path}", tls=self.trusting.context)

    def client(self, party: Party) -> EtcdClient:
        """At the port for workers."""
        return EtcdClient(f"localhost:{self.ports[2389]}", (), party.credentials)

    def cli(self, caller: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """As the page has its reader run commands."""
        told = {
            "GREENROOM_CONTROL": f"https://localhost:{self.ports[2390]}",
            "GREENROOM_CONTROL_CA": str(self.trusting.ca),
            "GREENROOM_TOKEN_FILE": str(self._token_file(caller)),
        }
        return subprocess.run(
            [*PROGRAM, *arguments], env={**environment(), **told}, capture_output=True, text=True, timeout=CLI_SECONDS
        )

    def _token_file(self, caller: str) -> Path:
        path = self._folder / f"{caller}.token"
        path.write_text(self.tokens[caller])
        return path

    def _here(self, argument: str) -> str:
        argument = argument.replace("$(POD_IP)", HERE)
        argument = _LISTENS.sub(lambda found: f"{found[1]}={HERE}:{self.ports[int(found[2])]}", argument)
        option, equals, value = argument.partition("=")
        folder = self._folders.get(os.path.dirname(value))  # noqa: PTH120  # a path of the container's
        return argument if folder is None else f"{option}{equals}{folder / os.path.basename(value)}"  # noqa: PTH119


def _files(ca: Path, issued: Issued | None) -> dict[str, str]:
    assert issued is not None
    texts = {"tls.crt": issued.cert, "tls.key": issued.key, "ca.crt": ca}
    return {name: path.read_text() for name, path in texts.items()}

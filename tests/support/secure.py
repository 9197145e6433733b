"""An etcd and a proxy that speak TLS on every port, and ask everybody for a certificate.

The rule: each has a certificate of its own, by the folder of the test. `Folder.links` are names that lead to the files
in use as Kubernetes makes them: a link into `..data`, itself a link that is swapped.
"""

import os
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

import grpc

from tests.support.certificates import HERE, Authority, Issued
from tests.support.client import EtcdClient
from tests.support.control import Control
from tests.support.etcd import Etcd
from tests.support.etcdctl import Etcdctl, find_etcdctl
from tests.support.greenroom import CLI_SECONDS, GATE_ARGUMENTS, PROGRAM, Greenroom, environment
from tests.support.http import Answer, ask
from tests.support.ports import free_port


@dataclass(frozen=True, slots=True)
class Party:
    """Somebody with a certificate, or with none, who trusts one CA."""

    ca: Path
    own: Issued | None = None

    @property
    def credentials(self) -> grpc.ChannelCredentials:
        key, cert = (self.own.key.read_bytes(), self.own.cert.read_bytes()) if self.own else (None, None)
        return grpc.ssl_channel_credentials(self.ca.read_bytes(), key, cert)

    @property
    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        if self.own:
            context.load_cert_chain(self.own.cert, self.own.key)
        return context

    def arguments(self, option: str, ca: str = "ca") -> tuple[str, ...]:
        """Command line options that begin alike."""
        own = (f"{option}cert", str(self.own.cert), f"{option}key", str(self.own.key)) if self.own else ()
        return f"{option}{ca}", str(self.ca), *own


class SecureEtcd(Etcd):
    """One that takes nobody without a certificate of `authority`."""

    def __init__(self, authority: Authority) -> None:
        served = authority.issue(HERE, file="etcd")
        self.party = Party(authority.ca, authority.issue("etcd.client", file="etcd-client"))
        own = f"--cert-file={served.cert}", f"--key-file={served.key}"
        super().__init__(None, (*own, "--client-cert-auth", f"--trusted-ca-file={authority.ca}"))

    @property
    def endpoint(self) -> str:
        return f"https://{self.address}"

    def client(self, **metadata: str) -> EtcdClient:
        return EtcdClient(self.address, tuple(metadata.items()), self.party.credentials)


class SecureGreenroom(Greenroom):
    """A proxy whose ports all ask for a certificate of `authority`, with a public port. `party` may use them."""

    def __init__(self, etcd: SecureEtcd, folder: Path, authority: Authority, served: Issued, ca: Path) -> None:
        self.party = Party(authority.ca, authority.issue("worker.fleet", file="worker"))
        self.public = f"{HERE}:{free_port()}"
        arguments = [*GATE_ARGUMENTS, *etcd.party.arguments("--upstream-"), "--public-listen", self.public]
        for side in ("--tls", "--control-tls"):
            arguments += [
                f"{side}-cert",
                str(served.cert),
                f"{side}-key",
                str(served.key),
                f"{side}-client-ca",
                str(ca),
            ]
        super().__init__(etcd.endpoint, folder, arguments=arguments)
        self.http_url = self.http_url.replace("http://", "https://")

    def is_ready(self) -> bool:
        return self.page("/ready", Party(self.party.ca)).status == 200

    def page(self, path: str, party: Party | None = None) -> Answer:
        return ask(self.http_url + path, tls=(party or self.party).context)

    def metric(self, sample: str) -> float:
        """A number of /metrics, by its name and labels."""
        lines = self.page("/metrics").body.decode().splitlines()
        return float(next(line for line in lines if line.startswith(f"{sample} ")).rpartition(" ")[2])

    def client(self, party: Party | None = None, address: str = "") -> EtcdClient:
        return EtcdClient(address or self.address, (), (party or self.party).credentials)

    def control_client(self, party: Party | None = None) -> Control:
        return Control(self.control, (party or self.party).credentials)

    def etcdctl(self, party: Party | None = None) -> Etcdctl:
        options = (party or self.party).arguments("--", "cacert")
        return Etcdctl(f"https://{self.address}", find_etcdctl(), options)

    def cli(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        place = ("--control", f"https://{self.control}", *self.party.arguments("--control-"))
        return subprocess.run(
            [*PROGRAM, *arguments, *place], env=environment(), capture_output=True, text=True, timeout=CLI_SECONDS
        )


class Mounted:
    """Files as Kubernetes mounts a secret: `cert`, `key` and `ca` are links that stay, what they lead to is swapped."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._version = folder, 0
        folder.mkdir()
        self.served = Issued(folder / "tls.crt", folder / "tls.key", folder / "ca.crt")
        for path in (self.served.cert, self.served.key, self.served.ca):
            path.symlink_to(Path("..data") / path.name)

    def swap(self, issued: Issued, *, key: Path | None = None) -> None:
        """All three at once, with one rename."""
        self._version += 1
        version = self._folder / f"..{self._version}"
        version.mkdir()
        for path, source in (
            (self.served.cert, issued.cert),
            (self.served.key, key or issued.key),
            (self.served.ca, issued.ca),
        ):
            (version / path.name).write_bytes(source.read_bytes())
            (version / path.name).chmod(0o600)
        (self._folder / "..new").symlink_to(version.name)
        os.replace(self._folder / "..new", self._folder / "..data")  # noqa: PTH105  # as kubelet does

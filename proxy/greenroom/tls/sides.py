"""The three uses of TLS of one proxy: etcd's clients, control (gRPC and HTTP), and the connections to etcd."""

import ssl
import time
from dataclasses import dataclass
from typing import Any, Self

import grpc

from greenroom.tls.contexts import H2, HTTP_1, Loaded, load_server, load_upstream
from greenroom.tls.files import TlsFiles
from greenroom.tls.newest import NewestContext
from greenroom.tls.refusals import Refusals
from greenroom.tls.reloading import Reloaded
from greenroom.tls.settings import TlsSettings


class Side:
    """One use of TLS, whose files may change."""

    def __init__(self, reloaded: Reloaded, refusals: Refusals | None = None) -> None:
        self.reloaded, self._refusals = reloaded, refusals
        self.context = NewestContext(lambda: reloaded.loaded.context)

    @property
    def refused(self) -> int:
        """How many clients were not let in. gRPC's own port tells nobody of those."""
        return self._refusals.number if self._refusals else 0


class ServerSide(Side):
    """Of ports that listen."""

    def __init__(self, reloaded: Reloaded, refusals: Refusals, *, knows_clients: bool) -> None:
        super().__init__(reloaded, refusals)
        self.knows_clients = knows_clients

    def grpc_credentials(self) -> grpc.ServerCredentials:
        """For gRPC's server, which asks for the newest certificate at each connection."""
        return grpc.dynamic_ssl_server_credentials(
            self.reloaded.loaded.grpc_server(),
            lambda: self.reloaded.loaded.grpc_server(),
            require_client_authentication=self.knows_clients,
        )


class UpstreamSide(Side):
    """Of connections to etcd."""

    def __init__(self, reloaded: Reloaded) -> None:
        super().__init__(reloaded)
        self._made_of: Loaded | None = None
        self._credentials: grpc.ChannelCredentials | None = None

    def grpc_credentials(self) -> grpc.ChannelCredentials:
        """For gRPC's channels: the same ones until the files change."""
        if self._credentials is None or self._made_of is not self.reloaded.loaded:
            self._made_of = self.reloaded.loaded
            self._credentials = self._made_of.grpc_channel()
        return self._credentials


def context_of(side: Side | None) -> ssl.SSLContext | None:
    """For asyncio; None for plaintext."""
    return None if side is None else side.context


@dataclass(frozen=True, slots=True)
class Sides:
    """Each where it is wanted, else None."""

    listen: ServerSide | None = None
    control: ServerSide | None = None
    upstream: UpstreamSide | None = None

    @classmethod
    def load(cls, settings: TlsSettings, *, log: Any) -> Self:
        """SettingsError for the first file that is wrong."""
        upstream = settings.upstream_files
        return cls(
            _server("listen", settings.listen_files, H2, ssl.CERT_REQUIRED, log),
            # Kubelets have no certificate; what they ask for anybody may know, see control.certified.
            _server("control", settings.control_files, HTTP_1, ssl.CERT_OPTIONAL, log),
            UpstreamSide(Reloaded("upstream", upstream, load_upstream, log=log)) if upstream else None,
        )

    def all(self) -> list[Side]:
        """Those that there are."""
        return [side for side in (self.listen, self.control, self.upstream) if side is not None]

    def warn_of_open_keys(self) -> None:
        """Tells of keys that more than their owner may read."""
        for side in self.all():
            side.reloaded.warn_of_open_key()


def _server(use: str, files: TlsFiles | None, protocol: str, clients: ssl.VerifyMode, log: Any) -> ServerSide | None:
    if files is None:
        return None
    refusals = Refusals(use, clock=time.monotonic, log=log)

    def load(changed: TlsFiles) -> Loaded:
        return load_server(changed, protocol, clients, refusals.refused)

    return ServerSide(Reloaded(use, files, load, log=log), refusals, knows_clients=files.trusted is not None)

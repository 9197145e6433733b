"""The files by which a command and etcd know each other: the same ones that `serve` has."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc

from greenroom.errors import SettingsError


@dataclass(frozen=True, slots=True)
class UpstreamFiles:
    """Paths as they were given: the CAs, and a certificate with its key."""

    ca: str | None
    cert: str | None
    key: str | None

    def check(self, *, is_secure: bool) -> None:
        """Whether they fit to https:// (`is_secure`) or http://; SettingsError.

        What is given in variables, for serve, need not be of use here.
        """
        if is_secure and self.ca is None:
            raise SettingsError("--upstream: has https://, which needs --upstream-ca")
        if (self.cert is None) != (self.key is None):
            raise SettingsError("--upstream-cert and --upstream-key are for each other; give both")
        if self.ca is not None and not is_secure:
            raise SettingsError(f"--upstream-ca '{self.ca}': is for an --upstream of https://")

    def variables(self) -> Mapping[str, str]:
        """The same for etcdctl."""
        given = {"ETCDCTL_CACERT": self.ca, "ETCDCTL_CERT": self.cert, "ETCDCTL_KEY": self.key}
        return {name: path for name, path in given.items() if path is not None}

    def credentials(self) -> grpc.ChannelCredentials | None:
        """For gRPC's channels, None for plaintext; SettingsError naming the file that is wrong."""
        if self.ca is None:
            return None
        # Imported when they are needed: a command starts fast.
        from greenroom.tls.contexts import load_client
        from greenroom.tls.files import client_files

        pair = Path(self.cert) if self.cert else None, Path(self.key) if self.key else None
        return load_client(client_files("--upstream", Path(self.ca), *pair)).grpc_channel()

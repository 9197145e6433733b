"""The settings of TLS: which files each side has, and whether they make a whole.

The rule: nothing is half secured. A certificate has its key, a CA something to verify, and https:// a CA to trust.
"""

from pathlib import Path
from typing import Self

from pydantic import model_validator
from pydantic_settings import BaseSettings

from greenroom.setting_errors import wrong
from greenroom.tls.files import NamedFile, Pair, TlsFiles, client_files


class TlsSettings(BaseSettings):
    """The files by their options: of etcd's ports, of the control and HTTP ports, and towards etcd."""

    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    control_tls_cert: Path | None = None
    control_tls_key: Path | None = None
    control_tls_client_ca: Path | None = None
    upstream_ca: Path | None = None
    upstream_cert: Path | None = None
    upstream_key: Path | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        for side in ("tls", "control_tls", "upstream"):
            self._pair_is_whole(f"{side}_cert", f"{side}_key")
        for side in ("tls", "control_tls"):
            if getattr(self, f"{side}_client_ca") is not None and getattr(self, f"{side}_cert") is None:
                option = side.replace("_", "-")
                wrong(f"{side}_client_ca", f"is for TLS, which needs --{option}-cert and --{option}-key")
        return self

    def _pair_is_whole(self, certificate: str, key: str) -> None:
        for field, other in ((certificate, key), (key, certificate)):
            if getattr(self, field) is not None and getattr(self, other) is None:
                wrong(field, f"needs --{other.replace('_', '-')} beside it")

    def check_upstream_tls(self, *, is_secure: bool) -> None:
        """Whether what was given fits to https:// (`is_secure`) or http://; raises as validators do."""
        if is_secure and self.upstream_ca is None:
            wrong("upstream", "has https://, which needs --upstream-ca: the CAs that etcd's certificates are of")
        given = next((field for field in _UPSTREAM_FIELDS if getattr(self, field) is not None), None)
        if given is not None and not is_secure:
            wrong(given, "is for an --upstream of https://")

    @property
    def knows_control_clients(self) -> bool:
        """Whether whoever uses the control API has shown who it is, by whatever means."""
        return self.control_tls_client_ca is not None

    @property
    def listen_files(self) -> TlsFiles | None:
        """Of etcd's ports; None without TLS."""
        return _server_files(self, "tls")

    @property
    def control_files(self) -> TlsFiles | None:
        """Of the control and HTTP ports; None without TLS."""
        return _server_files(self, "control_tls")

    @property
    def upstream_files(self) -> TlsFiles | None:
        """Towards etcd; None without TLS."""
        if self.upstream_ca is None:
            return None
        return client_files("--upstream", self.upstream_ca, self.upstream_cert, self.upstream_key)


_UPSTREAM_FIELDS = ("upstream_ca", "upstream_cert", "upstream_key")


def _server_files(settings: TlsSettings, side: str) -> TlsFiles | None:
    certificate: Path | None = getattr(settings, f"{side}_cert")
    key: Path | None = getattr(settings, f"{side}_key")
    ca: Path | None = getattr(settings, f"{side}_client_ca")
    if certificate is None or key is None:
        return None
    option = f"--{side.replace('_', '-')}"
    pair = Pair(NamedFile(f"{option}-cert", certificate), NamedFile(f"{option}-key", key))
    return TlsFiles(pair, NamedFile(f"{option}-client-ca", ca) if ca else None)

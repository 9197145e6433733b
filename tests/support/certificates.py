"""Certificates of the tests' own, in files, for whatever speaks TLS.

The rule: an authority is made for a test and trusted by nobody else; each file lies where its test says.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme

from greenroom.tls.files import NamedFile, Pair, TlsFiles

HERE = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate, with its key, and the CA that it is of."""

    cert: Path
    key: Path
    ca: Path

    @property
    def pair(self) -> Pair:
        return Pair(NamedFile("--tls-cert", self.cert), NamedFile("--tls-key", self.key))

    @property
    def files(self) -> TlsFiles:
        """It, and its CA as the one that the other side is trusted by."""
        return TlsFiles(self.pair, self.trusted)

    @property
    def trusted(self) -> NamedFile:
        return NamedFile("--tls-client-ca", self.ca)


class Authority:
    """A CA, whose certificate is in `ca`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._authority = folder, trustme.CA()
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(self._authority.cert_pem.bytes())

    def issue(
        self, *names: str, file: str = "own", common_name: str | None = None, ends_in_seconds: float = 3600.0
    ) -> Issued:
        """For these names (addresses, DNS, e-mail), as FILE.pem and FILE.key; an end in the past: it has expired."""
        now = datetime.now(UTC)
        issued = self._authority.issue_cert(
            *(names or (HERE,)),
            common_name=common_name,
            not_before=now - timedelta(days=2),
            not_after=now + timedelta(seconds=ends_in_seconds),
        )
        paths = Issued(self._folder / f"{file}.pem", self._folder / f"{file}.key", self.ca)
        paths.cert.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        paths.key.write_bytes(issued.private_key_pem.bytes())
        paths.key.chmod(0o600)
        return paths

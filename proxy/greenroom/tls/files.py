"""The files of one side of TLS, each under the option that named it.

The rule: whatever is wrong with a file is said in one line that names option and path, and shows nothing that is in it.
"""

import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from greenroom.errors import SettingsError

_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----")
_KEY: Final = re.compile(rb"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----")
_ENCRYPTED: Final = re.compile(rb"-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED", re.MULTILINE)
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file, and the option that it was given with."""

    option: str
    path: Path

    def __str__(self) -> str:
        return f"{self.option} '{self.path}'"

    def certificates(self) -> bytes:
        """One or several, as PEM. SettingsError."""
        found = self._read()
        if not _CERTIFICATE.search(found):
            raise self.wrong("has no certificate in PEM form")
        return found

    def key(self) -> bytes:
        """A private key, as PEM. SettingsError."""
        found = self._read()
        if _ENCRYPTED.search(found):
            raise self.wrong("is encrypted: nobody could be asked for its passphrase; give the key without one")
        if not _KEY.search(found):
            raise self.wrong("has no private key in PEM form")
        return found

    def open_to_others(self) -> str | None:
        """The file's mode, as `0644`, where more than its owner may read or write it."""
        try:
            mode = stat.S_IMODE(self.path.stat().st_mode)
        except OSError:
            return None  # It is being replaced.
        return f"{mode:04o}" if mode & OTHERS else None

    def wrong(self, why: str) -> SettingsError:
        """The error that says so."""
        return SettingsError(f"{self}: {why}", field=self.option.removeprefix("--").replace("-", "_"))

    def _read(self) -> bytes:
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise self.wrong(f"cannot be read: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class Pem:
    """What is in the files, as gRPC takes it. The key is in no repr."""

    certificates: bytes | None
    key: bytes | None = field(repr=False)
    trusted: bytes | None


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate, with those between it and its CA after it, and its key."""

    certificate: NamedFile
    key: NamedFile


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """What one side shows of itself, and the CAs that it trusts the other side by. Either may be absent."""

    pair: Pair | None = None
    trusted: NamedFile | None = None

    def read(self) -> Pem:
        """All of them; SettingsError for the first that is wrong by itself."""
        return Pem(
            self.pair.certificate.certificates() if self.pair else None,
            self.pair.key.key() if self.pair else None,
            self.trusted.certificates() if self.trusted else None,
        )

    @property
    def paths(self) -> list[Path]:
        """Of all of them."""
        return [file.path for file in self._all()]

    def __str__(self) -> str:
        return ", ".join(map(str, self._all()))

    def _all(self) -> list[NamedFile]:
        pair = [self.pair.certificate, self.pair.key] if self.pair else []
        return [*pair, self.trusted] if self.trusted else pair


def client_files(option: str, ca: Path, certificate: Path | None, key: Path | None) -> TlsFiles:
    """Those of the side that connects, by options that begin alike: `--upstream-ca`, `-cert` and `-key`."""
    trusted = NamedFile(f"{option}-ca", ca)
    if certificate is None or key is None:
        return TlsFiles(trusted=trusted)
    return TlsFiles(Pair(NamedFile(f"{option}-cert", certificate), NamedFile(f"{option}-key", key)), trusted)

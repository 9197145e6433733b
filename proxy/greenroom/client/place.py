"""Where the control API is asked, and how both sides know each other: an address, with https:// files, and a token.

The rule: what does not fit is a SettingsError in the words of whoever gave it, before anything is sent. No token is in
an error.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import grpc

from greenroom.access.tokens import is_token
from greenroom.addresses import DEFAULT_CONTROL, Address
from greenroom.client.naming import Naming
from greenroom.errors import SettingsError
from greenroom.passwords import read_secret

CONTROL_VARIABLE: Final = "GREENROOM_CONTROL"
CA_VARIABLE: Final = "GREENROOM_CONTROL_CA"
CERT_VARIABLE: Final = "GREENROOM_CONTROL_CERT"
KEY_VARIABLE: Final = "GREENROOM_CONTROL_KEY"
TOKEN_VARIABLE: Final = "GREENROOM_TOKEN"
TOKEN_FILE_VARIABLE: Final = "GREENROOM_TOKEN_FILE"
INSECURE_VARIABLE: Final = "GREENROOM_INSECURE_CONTROL"
"""That of `serve --insecure-control`, which lets a proxy take tokens so."""
_YES: Final = frozenset({"1", "true", "t", "yes", "y", "on"})
"""As `serve` reads it; anything else is no, which is the safe side."""

VARIABLES: Final = Naming(
    control=CONTROL_VARIABLE,
    elsewhere=f"by {CONTROL_VARIABLE}",
    ca=CA_VARIABLE,
    cert=CERT_VARIABLE,
    key=KEY_VARIABLE,
    token=TOKEN_VARIABLE,
    token_file=TOKEN_FILE_VARIABLE,
    known_by=f"{TOKEN_FILE_VARIABLE} or {TOKEN_VARIABLE}",
    insecure=f"say {INSECURE_VARIABLE}=1",
)
"""The words of whoever gave them as variables."""


@dataclass(frozen=True, slots=True)
class Place:
    """As it was given; empty is not given. The token is in no repr."""

    control: str = DEFAULT_CONTROL
    ca: str = ""
    cert: str = ""
    key: str = ""
    token: str = field(default="", repr=False)
    token_file: str = ""
    """Goes before the token."""
    insecure: bool = False
    """A token may cross the network in plaintext."""

    def address(self, naming: Naming) -> Address:
        """From `host:port`, or a URL; SettingsError."""
        try:
            return Address.of_url(self.control) if "://" in self.control else Address.parse(self.control)
        except ValueError as error:
            raise SettingsError(f"{naming.control} '{self.control}': {error}") from error

    def credentials(self, naming: Naming) -> grpc.ChannelCredentials | None:
        """For gRPC's channel, None for plaintext; SettingsError where the files do not fit, or are no good."""
        if not self.address(naming).is_secure:
            if files := self._files(naming):
                raise SettingsError(f"{naming.control} '{self.control}': is not https://, and {files} is given")
            return None
        if not self.ca:
            needed = f"needs {naming.ca}, the CAs that it is verified by"
            raise SettingsError(f"{naming.control} '{self.control}': {needed}")
        if bool(self.cert) != bool(self.key):
            each_other = f"{naming.cert} and {naming.key} are for each other; give both"
            raise SettingsError(f"{self._files(naming)}: {each_other}")
        return self._read(naming)

    def known_token(self, naming: Naming) -> str | None:
        """The one in the file, else that given as it is; None without any. SettingsError, which does not show it."""
        source = f"{naming.token_file} '{self.token_file}'" if self.token_file else naming.token
        try:
            token = (read_secret(Path(self.token_file), "token") if self.token_file else self.token).strip()
        except ValueError as error:
            raise SettingsError(f"{source}: {error}") from error
        if token and not is_token(token):
            raise SettingsError(f"{source}: is no token: it has characters that none has, or is too long")
        if token:
            self._check_secrecy(naming)
        return token or None

    def _check_secrecy(self, naming: Naming) -> None:
        address = self.address(naming)
        if not (address.is_secure or address.is_loopback or self.insecure):
            raise SettingsError(
                f"{naming.control} '{self.control}': is neither https:// nor this machine, so the token would cross "
                f"the network for everybody to read; use https://, or {naming.insecure}"
            )

    def _files(self, naming: Naming) -> str:
        given = ((naming.ca, self.ca), (naming.cert, self.cert), (naming.key, self.key))
        return ", ".join(f"{name} '{path}'" for name, path in given if path)

    def _read(self, naming: Naming) -> grpc.ChannelCredentials:
        # Imported when they are needed: a command starts fast.
        from greenroom.tls.contexts import load_client
        from greenroom.tls.files import NamedFile, Pair, TlsFiles

        trusted = NamedFile(naming.ca, Path(self.ca))
        if not self.cert:
            return load_client(TlsFiles(trusted=trusted)).grpc_channel()
        pair = Pair(NamedFile(naming.cert, Path(self.cert)), NamedFile(naming.key, Path(self.key)))
        return load_client(TlsFiles(pair, trusted)).grpc_channel()


def place_from_environment() -> Place:
    """What the variables say that the command line obeys too."""
    given = os.environ.get
    return Place(
        control=given(CONTROL_VARIABLE) or DEFAULT_CONTROL,
        ca=given(CA_VARIABLE, ""),
        cert=given(CERT_VARIABLE, ""),
        key=given(KEY_VARIABLE, ""),
        token=given(TOKEN_VARIABLE, ""),
        token_file=given(TOKEN_FILE_VARIABLE, ""),
        insecure=given(INSECURE_VARIABLE, "").lower() in _YES,
    )

"""From files to what speaks TLS: contexts of ssl, and the same as PEM for gRPC, which reads no context.

The rule: everything that can be wrong with the files is found here, all of them together, before any of it is used.
"""

import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import grpc

from greenroom.tls.files import Pair, Pem, TlsFiles
from greenroom.tls.trial import Certificate, Role, tried
from greenroom.tls.words import in_words

H2: Final = "h2"
HTTP_1: Final = "http/1.1"
_OF_THE_KEY: Final = frozenset({"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH"})
_PEERS: Final = {Role.SERVER: "client", Role.CLIENT: "server"}

Refused = Callable[[str], None]
"""Told of a client that was not let in, and why."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """One set of files, ready for use. `certificate` is as the other side reads it, empty where there is none."""

    context: ssl.SSLContext
    pem: Pem
    certificate: Certificate

    @property
    def expires(self) -> datetime | None:
        """When the certificate does; None where there is none."""
        ends = self.certificate.get("notAfter")
        return datetime.fromtimestamp(ssl.cert_time_to_seconds(ends), UTC) if ends else None

    def grpc_channel(self) -> grpc.ChannelCredentials:
        """For a channel of gRPC's."""
        return grpc.ssl_channel_credentials(self.pem.trusted, self.pem.key, self.pem.certificates)

    def grpc_server(self) -> grpc.ServerCertificateConfiguration:
        """For a server of gRPC's."""
        assert self.pem.key is not None, "a server shows who it is"
        assert self.pem.certificates is not None
        shown = [(self.pem.key, self.pem.certificates)]
        return grpc.ssl_server_certificate_configuration(shown, self.pem.trusted)


class _TellingObject(ssl.SSLObject):
    """One connection of a server. asyncio drops those whose handshake fails, and tells nobody."""

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            assert isinstance(self.context, _ServerContext)
            self.context.refused(in_words(error))
            raise


class _ServerContext(ssl.SSLContext):
    """A server's context that tells of the clients which it does not let in."""

    refused: Refused
    sslobject_class = _TellingObject

    def __new__(cls, _: Refused) -> "_ServerContext":
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, refused: Refused) -> None:
        self.refused = refused


def load_server(files: TlsFiles, protocol: str, clients: ssl.VerifyMode, refused: Refused) -> Loaded:
    """For a port that listens and speaks one protocol. SettingsError naming the file that is wrong.

    `clients` says what becomes of those that show no certificate, where there are CAs to verify one by.
    """
    pem = files.read()
    assert files.pair is not None, "a server shows who it is"
    context = _ServerContext(refused)
    # A session that is taken up again shows no certificate: one from before its CA was taken out would be let in.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    certificate = _show(context, files.pair, Role.SERVER)
    _trust(context, files)
    context.verify_mode = clients if files.trusted else ssl.CERT_NONE
    return Loaded(_speaking(context, protocol), pem, certificate)


def load_client(files: TlsFiles, protocol: str = H2) -> Loaded:
    """For connections that are opened: the other side must be who it is said to be. SettingsError likewise."""
    pem = files.read()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    certificate = _show(context, files.pair, Role.CLIENT) if files.pair else {}
    _trust(context, files)
    return Loaded(_speaking(context, protocol), pem, certificate)


def load_upstream(files: TlsFiles) -> Loaded:
    """For connections to etcd.

    A certificate with a common name is refused, as etcd's own grpc-proxy does: where etcd knows users by their
    certificates it would take every client that has no token for that one.
    """
    loaded = load_client(files)
    if files.pair is not None and (name := _common_name(loaded.certificate)):
        raise files.pair.certificate.wrong(
            f"has the common name {name!r}: etcd could take all clients of the proxy for that user; "
            "use one that has alternative names only"
        )
    return loaded


def _speaking(context: ssl.SSLContext, protocol: str) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([protocol])
    return context


def _show(context: ssl.SSLContext, pair: Pair, role: Role) -> Certificate:
    try:
        # Without a password OpenSSL would ask for one, on the terminal, where the key has one.
        context.load_cert_chain(pair.certificate.path, pair.key.path, password="")
    except ssl.SSLError as error:
        if error.reason in _OF_THE_KEY:
            raise pair.key.wrong(f"does not belong to {pair.certificate}") from error
        raise pair.certificate.wrong(f"cannot be used with {pair.key}: {in_words(error)}") from error
    except OSError as error:
        raise pair.certificate.wrong(f"or {pair.key} cannot be read: {in_words(error)}") from error
    try:
        return tried(pair.certificate.path, pair.key.path, role)
    except OSError as error:
        raise pair.certificate.wrong(f"no {_PEERS[role]} would take it: {in_words(error)}") from error
    except ValueError as error:  # It is read again for that, and has been cut off meanwhile.
        raise pair.certificate.wrong(f"cannot be read: {error}") from error


def _trust(context: ssl.SSLContext, files: TlsFiles) -> None:
    if files.trusted is None:
        return
    try:
        context.load_verify_locations(cafile=files.trusted.path)
    except OSError as error:
        raise files.trusted.wrong(f"has a certificate that cannot be read: {in_words(error)}") from error


def _common_name(certificate: Certificate) -> str:
    subject: Sequence[Sequence[tuple[str, str]]] = certificate.get("subject", ())
    return next((value for part in subject for kind, value in part if kind == "commonName" and value), "")

"""Where previews listen, and what their clients are told: the host, the ports, the name that others know it by."""

import random
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from greenroom.addresses import Address
from greenroom.errors import SettingsError
from greenroom.processes import PORTS, can_bind

ATTEMPTS = 100
"""Of ports that may be free, where none were named."""
EVERY_NETWORK = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class PreviewPlaces:
    """Any free port of `host`, or one of `ports`; `advertised` is the host that clients are told, if another one."""

    host: str = "127.0.0.1"
    advertised: str | None = None
    ports: Sequence[int] | None = None

    def check(self) -> None:
        """SettingsError where the host is not this machine's: later it would look as if no port of it were free."""
        if not can_bind(self.host, 0):
            raise SettingsError(f"--preview-host '{self.host}': is no address of this machine")

    def candidates(self) -> Iterator[Address]:
        """Addresses that nothing listens on at the moment, to be tried one after the other."""
        ports = random.sample(PORTS, ATTEMPTS) if self.ports is None else self.ports
        return (Address(self.host, port) for port in ports if can_bind(self.host, port))

    def told(self, address: Address) -> str:
        """What clients are told of an address. One of every network is none that they could use: this machine's is."""
        host = socket.gethostname() if address.host in EVERY_NETWORK else address.host
        return str(Address(self.advertised or host, address.port))

    def __str__(self) -> str:
        ports = f", ports {self.ports[0]}-{self.ports[-1]}" if self.ports else ""
        return f"host {self.host}{ports}"

"""Where a proxy listens: the ports that it was told, or free ones, and under which name others reach them."""

import socket
from dataclasses import dataclass, replace

from greenroom.addresses import DEFAULT_CONTROL, Address
from greenroom.errors import StartError
from greenroom.processes import can_bind, free_port
from greenroom.settings import Settings

EVERY_NETWORK = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class Places:
    """Where this proxy really listens: free ports are chosen already."""

    listen: Address
    control: Address
    http: Address
    public: Address | None = None
    control_asks_certificates: bool = False

    @property
    def control_to_name(self) -> str | None:
        """The control address where printed commands must name it: commands look at exactly one by themselves.

        With the options that must stand beside it: which files a client has, only who pastes the command knows.
        """
        place = named(self.control)
        if not place.is_secure:
            return None if str(place) == DEFAULT_CONTROL else str(place)
        own = " --control-cert FILE --control-key FILE" if self.control_asks_certificates else ""
        return f"{place.url} --control-ca FILE{own}"


def places_of(settings: Settings) -> Places:
    """StartError for a port that is taken, before anything is started because of it."""
    etcd_tls, control_tls = settings.listen_files is not None, settings.control_files is not None
    public = settings.public_listen
    return Places(
        _place("--listen", settings.listen, is_secure=etcd_tls),
        _place("--control-listen", settings.control_listen, is_secure=control_tls),
        _place("--http-listen", settings.http_listen, is_secure=control_tls),
        _place("--public-listen", public, is_secure=etcd_tls) if public else None,
        control_asks_certificates=settings.knows_control_clients,
    )


def named(address: Address) -> Address:
    """An address of every network is none that a client could use: this machine's name is."""
    return replace(address, host=socket.gethostname()) if address.host in EVERY_NETWORK else address


def _place(option: str, address: Address, *, is_secure: bool = False) -> Address:
    chosen = Address(address.host, address.port or free_port(address.host), is_secure)
    if not can_bind(chosen.host, chosen.port):
        raise StartError(f"{option} '{address}': the port is taken, or the address is not this machine's")
    return chosen

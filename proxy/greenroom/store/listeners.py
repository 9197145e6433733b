"""Which instances say that they listen at an address: for pods that know where they are, and not who they are.

The rule: several may share an address, and one may name several; an answer takes no longer with a large fleet.
"""

from collections import defaultdict
from collections.abc import Collection
from ipaddress import ip_address

from greenroom.core.keyspace import InstanceId


class Listeners:
    """Instances by host, which `tell` keeps up to date."""

    def __init__(self) -> None:
        self._told: dict[InstanceId, frozenset[str]] = {}
        self._by_host: defaultdict[str, set[InstanceId]] = defaultdict(set)

    def tell(self, instance: InstanceId, addresses: Collection[str]) -> None:
        """All addresses of an instance, as `host:port`; none forgets it."""
        before, now = self._told.get(instance, frozenset()), frozenset(addresses)
        if before == now:
            return
        for host in {host_of(address) for address in before}:
            self._by_host[host].discard(instance)
            if not self._by_host[host]:
                del self._by_host[host]
        for address in now:
            self._by_host[host_of(address)].add(instance)
        if now:
            self._told[instance] = now
        else:
            self._told.pop(instance, None)

    def at(self, host: str, port: int | None = None) -> tuple[InstanceId, ...]:
        """Those that listen at a host, on this port where one is given, in the order of their names."""
        found = self._by_host.get(normal(host), ())
        return tuple(sorted(one for one in found if port is None or self._listens(one, normal(host), port)))

    def _listens(self, instance: InstanceId, host: str, port: int) -> bool:
        return any(host_of(address) == host and port_of(address) == port for address in self._told[instance])


def host_of(address: str) -> str:
    """The host of `host:port`, in one spelling."""
    return normal(address.rpartition(":")[0] or address)


def port_of(address: str) -> int | None:
    """The port of `host:port`, None where there is none."""
    port = address.rpartition(":")[2]
    return int(port) if port.isascii() and port.isdigit() else None


def normal(host: str) -> str:
    """One spelling for all of a host's: IPv6 in brackets or not, IPv4 as IPv6 has it, names in capitals."""
    bare = host.removeprefix("[").removesuffix("]")
    try:
        address = ip_address(bare)
    except ValueError:
        return bare.lower()
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)

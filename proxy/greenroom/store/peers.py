"""The other proxies of one etcd, as they say of themselves, and which of them go by another policy.

The rule: a difference is told when it is first seen, and when it is over; never with each look.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Peer:
    """Another proxy: where its control API is, and the digest of its policy. Empty: it does not say."""

    address: str
    host: str
    policy: str


class Peers:
    """What is known of the others, by proxy id."""

    def __init__(self, policy_digest: str, *, log: Any) -> None:
        self._own, self._log = policy_digest, log
        self.known: Mapping[str, Peer] = {}
        self._warned: dict[str, tuple[str, str]] = {}
        """The digests that were warned of, this proxy's and the other's, by proxy."""

    @property
    def differing(self) -> frozenset[str]:
        """Those whose policy is another one than this proxy's."""
        return frozenset(name for name, peer in self.known.items() if peer.policy != self._own)

    def policy_changed(self, digest: str) -> None:
        """This proxy has a new policy; the others are compared with it at the next look."""
        self._own = digest

    def seen(self, said: Mapping[str, Mapping[str, Any]]) -> None:
        """What all others say at the moment, by proxy id."""
        self.known = {name: _peer(one) for name, one in said.items()}
        for name, peer in self.known.items():
            digests = (self._own, peer.policy)
            if peer.policy == self._own:
                if self._warned.pop(name, None) is not None:
                    self._log.info("policy.agrees", **self._between(name, peer))
            elif self._warned.get(name) != digests:
                self._warned[name] = digests
                self._log.warning("policy.differs", **self._between(name, peer))
        self._warned = {name: digests for name, digests in self._warned.items() if name in self.known}

    def _between(self, name: str, peer: Peer) -> dict[str, str]:
        digests = {"digest": self._own, "other_digest": peer.policy}
        return {"proxy": name, "address": peer.address, "host": peer.host, **digests}


def _peer(said: Mapping[str, Any]) -> Peer:
    address, host, policy = (str(said.get(name, "")) for name in ("address", "host", "policy"))
    return Peer(address, host, policy)

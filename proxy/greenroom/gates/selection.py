"""Which instances a runner is for: those that a selector matches, or those that listen on this host.

The rule: it says nothing of their gates or states. What is not known of an instance matches no selector: an instance
that is another runner's business must not be run here by mistake.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase

from greenroom.addresses import Address
from greenroom.core.policy import Hold
from greenroom.core.selectors import Selector
from greenroom.gates.gate_config import WantedHold
from greenroom.pb.control.v1 import control_pb2
from greenroom.pb.control.v1.control_pb2 import Instance
from greenroom.processes import can_bind

HOLDS = {
    control_pb2.HOLD_CARD: Hold.CARD,
    control_pb2.HOLD_CARD_AND_INSTANCE: Hold.CARD_AND_INSTANCE,
    control_pb2.HOLD_HEALTH: Hold.HEALTH,
}


@dataclass(frozen=True, slots=True)
class Selection:
    """`is_near` None: wherever they listen, else whether a host is this one. `gates` are those that the runner has."""

    gates: Collection[str]
    selector: Selector
    is_near: Callable[[str], bool] | None
    hold: WantedHold | None

    def selects(self, instance: Instance) -> bool:
        """Whether this runner is for it: it has one of the gates, and is one of those that were asked for."""
        if not any(status.gate in self.gates for status in instance.gates):
            return False
        return self._matches(instance) and (self.is_near is None or self.is_near(host_of(instance.address)))

    def runs(self, instance: Instance) -> bool:
        """Whether its gates are run: it is selected, and held as was asked for."""
        return self.selects(instance) and not self.why_not(instance)

    def why_not(self, instance: Instance) -> str:
        """In which way the instance's rule says otherwise than this runner was told; empty where it does not."""
        held = HOLDS.get(instance.hold)
        if self.hold is None or held is None or self.hold.agrees_with(held):
            return ""
        return f"this runner was told hold '{self.hold}', and the rule for instance {instance.id} says '{held}'"

    def _matches(self, instance: Instance) -> bool:
        asked = self.selector
        return (
            _any(asked.namespace, instance.namespace.split(", "))
            and _any(asked.component, instance.component.split(", "))
            and _any(asked.endpoint, instance.endpoints)
            and _any(asked.model, instance.models)
        )


def host_of(address: str) -> str:
    """The host of an instance's address; empty where it has said none."""
    try:
        return Address.parse(address).host
    except ValueError:
        return ""


def is_this_host(host: str) -> bool:
    """Whether an address is one of this host's interfaces: nobody else's can be listened on."""
    return bool(host) and can_bind(host, 0)


def _any(glob: str | None, values: Collection[str]) -> bool:
    return glob is None or any(fnmatchcase(value, glob) for value in values)

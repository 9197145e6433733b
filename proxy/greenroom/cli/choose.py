"""Which instance is meant: any part of its id that no other has, its address, or its model.

Lease ids of one etcd begin alike and differ at the end, so nobody types them in full.
"""

from collections.abc import Sequence

from greenroom.cli.client import ControlError
from greenroom.cli.words import state_word
from greenroom.errors import SettingsError
from greenroom.pb.control.v1.control_pb2 import Instance

MAX_LISTED = 8
"""More candidates than this help nobody."""


class NoSuchInstanceError(ControlError):
    """Nothing fits: it has not registered yet, or its lease ended."""


def choose(
    instances: Sequence[Instance], text: str | None, address: str | None = None, model: str | None = None
) -> Instance:
    """The one instance that fits all that was given; ControlError lists what there is where none or several do."""
    if not (text or address or model):
        raise SettingsError("ID is not given: any part of the id that no other instance has, or --address, or --model")
    found = [instance for instance in instances if _fits(instance, text, address, model)]
    exact = [instance for instance in found if text is not None and instance.id == _bare(text)]
    if len(exact or found) == 1:
        return (exact or found)[0]
    asked = _asked(text, address, model)
    if found:
        raise ControlError(f"{asked} is ambiguous: {_listed(found)}")
    raise NoSuchInstanceError(
        f"no instance has {asked}; there are: {_listed(instances)}"
        if instances
        else f"no instance has {asked}; there are none"
    )


def _fits(instance: Instance, text: str | None, address: str | None, model: str | None) -> bool:
    return (
        (text is None or _bare(text) in instance.id)
        and (address is None or instance.address == address)
        and (model is None or model in instance.models)
    )


def _bare(text: str) -> str:
    return text.lower().removeprefix("instances/").removeprefix("0x")


def _asked(text: str | None, address: str | None, model: str | None) -> str:
    given = (("id", text), ("address", address), ("model", model))
    return " and ".join(f"{name} {value!r}" for name, value in given if value is not None)


def _listed(instances: Sequence[Instance]) -> str:
    named = [f"{one.id} ({', '.join(one.models) or 'no model'}, {state_word(one.state)})" for one in instances]
    more = f" and {len(named) - MAX_LISTED} more" if len(named) > MAX_LISTED else ""
    return ", ".join(named[:MAX_LISTED]) + more

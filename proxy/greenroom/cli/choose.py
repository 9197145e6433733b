"""Which instance is meant: any part of its id that no other has, its address, or its model. Of other things, the id.

Lease ids of one etcd begin alike and differ at the end, so nobody types them in full. The rule: an empty text names
nobody. It is in every id, and comes from a script's variable that is not set.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from greenroom.cli.words import state_word
from greenroom.errors import ControlError, NoSuchInstanceError, SettingsError
from greenroom.pb.control.v1.control_pb2 import Instance

ThingT = TypeVar("ThingT")
MAX_LISTED = 8
"""More candidates than this help nobody."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an instance was named by; SettingsError where that is nothing, or an empty text."""

    text: str | None = None
    address: str | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        if self.text is None and self.address is None and self.model is None:
            any_part = "any part of the id that no other instance has"
            raise SettingsError(f"ID is not given: {any_part}, or --address, or --model")
        if self.text is not None:
            not_empty("ID", self.text, _bare(self.text))
        for option, value in (("--address", self.address), ("--model", self.model)):
            if value is not None:
                not_empty(option, value)

    def fits(self, instance: Instance) -> bool:
        """Whether the instance has all that was given."""
        return (
            (self.text is None or _bare(self.text) in instance.id)
            and (self.address is None or instance.address == self.address)
            and (self.model is None or self.model in instance.models)
        )

    def is_id_of(self, instance: Instance) -> bool:
        """Whether its whole id was given."""
        return self.text is not None and instance.id == _bare(self.text)

    def __str__(self) -> str:
        given = (("id", self.text), ("address", self.address), ("model", self.model))
        return " and ".join(f"{name} {value!r}" for name, value in given if value is not None)


def not_empty(name: str, text: str, bare: str | None = None) -> None:
    """SettingsError where `text`, or what is left of it without its prefixes, is blank."""
    if not (text if bare is None else bare).strip():
        raise SettingsError(f"{name} {text!r}: is empty, and would fit anything")


def choose(instances: Sequence[Instance], wanted: Wanted) -> Instance:
    """The one instance that fits; ControlError lists what there is where none or several do, with their states."""
    found = [instance for instance in instances if wanted.fits(instance)]
    exact = [instance for instance in found if wanted.is_id_of(instance)]
    if len(exact or found) == 1:
        return (exact or found)[0]
    asked = str(wanted)
    if found:
        raise ControlError(f"{asked} is ambiguous: {listed(found)}")
    raise NoSuchInstanceError(
        f"no instance has {asked}; there are: {listed(instances)}"
        if instances
        else f"no instance has {asked}; there are none"
    )


def id_part(text: str) -> str:
    """The id, or the part of one, in a text that may be a resource name; SettingsError where it is empty."""
    part = text.strip().rpartition("/")[2]
    not_empty("ID", text, part)
    return part


def by_id(
    kind: str, things: Sequence[ThingT], text: str, id_of: Callable[[ThingT], str], about: Callable[[ThingT], str]
) -> ThingT:
    """The one whose id is or contains what `text` says; ControlError lists what there is where none or several do."""
    part = id_part(text)
    found = [one for one in things if id_of(one) == part] or [one for one in things if part in id_of(one)]
    if len(found) == 1:
        return found[0]
    told = ", ".join(f"{id_of(one)} ({about(one)})" for one in (found or things)) or "none"
    if found:
        raise ControlError(f"{kind} {text!r} is ambiguous: {told}")
    raise ControlError(f"no {kind} {text!r}; there are: {told}")


def _bare(text: str) -> str:
    return text.strip().lower().removeprefix("instances/").removeprefix("0x")


def listed(instances: Sequence[Instance]) -> str:
    """Instances by id, models and state, in one line that does not get too long."""
    named = [f"{one.id} ({', '.join(one.models) or 'no model'}, {state_word(one.state)})" for one in instances]
    more = f" and {len(named) - MAX_LISTED} more" if len(named) > MAX_LISTED else ""
    return ", ".join(named[:MAX_LISTED]) + more

"""Messages that differ from call to call at next to no cost: built once, and numbers written into them in place.

The rule: a number is as wide in one call as in the next, so that nothing else of the message moves; a template proves
it when it is made, by a second message built in full.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

FIRST_LEASE: Final = 1 << 60
"""From here on to 2^63 a number has 19 digits, 16 hex digits and 9 bytes as a varint. Below 10^12 it has 12 digits."""
_SMALL: Final = (123_456_789_012, 987_654_321_098)
_LARGE: Final = (FIRST_LEASE + 0x123_4567_89AB_CDE1, FIRST_LEASE + 0x5ED_CBA9_8765_4321)


def varint(number: int) -> bytes:
    """As protobuf writes it."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(encoded) + bytes([number])


FORMS: Final[Mapping[str, Callable[[int], bytes]]] = {
    "decimal": lambda number: b"%012d" % number,
    "hex": lambda number: b"%x" % number,
    "varint": varint,
}


@dataclass(frozen=True, slots=True)
class Patch:
    """One number in one form, and all the places where it stands. `of_key`: it names the key, not the call."""

    of_key: bool
    form: str
    width: int
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """A message, and where its two numbers stand in it."""

    message: bytes
    patches: tuple[Patch, ...]

    def filled(self, key: int, call: int) -> bytes:
        """The message of one call."""
        message = bytearray(self.message)
        for patch in self.patches:
            text = FORMS[patch.form](key if patch.of_key else call)
            assert len(text) == patch.width, f"{key} or {call} is not as wide as the template's"
            for at in patch.offsets:
                message[at : at + patch.width] = text
        return bytes(message)

    def to_json(self) -> dict[str, Any]:
        patches = [[patch.of_key, patch.form, patch.width, patch.offsets] for patch in self.patches]
        return {"message": self.message.hex(), "patches": patches}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        patches = (Patch(of_key, form, width, tuple(at)) for of_key, form, width, at in said["patches"])
        return cls(bytes.fromhex(said["message"]), tuple(patches))


def template_of(build: Callable[[int, int], bytes], *, keys_are_leases: bool = False) -> Template:
    """The template of what `build` makes of a key's and a call's number."""
    key, other_key = _LARGE if keys_are_leases else (_SMALL[0] - 7, _SMALL[1] - 7)
    call, other_call = _SMALL
    message = build(key, call)
    patches = [*_found(message, key, of_key=True), *_found(message, call, of_key=False)]
    template = Template(message, tuple(patches))
    assert template.filled(other_key, other_call) == build(other_key, other_call), "something else varies as well"
    return template


def _found(message: bytes, number: int, *, of_key: bool) -> Sequence[Patch]:
    found = []
    for form, write in FORMS.items():
        text = write(number)
        if offsets := _offsets(message, text):
            found.append(Patch(of_key, form, len(text), offsets))
    return found


def _offsets(message: bytes, text: bytes) -> tuple[int, ...]:
    offsets, at = [], message.find(text)
    while at >= 0:
        offsets.append(at)
        at = message.find(text, at + len(text))
    return tuple(offsets)

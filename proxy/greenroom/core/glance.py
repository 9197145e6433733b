"""A first look at a request's bytes: a call that plainly concerns nothing gated or reserved needs no second one.

Nearly all requests are written alike: fields in the order of their numbers, each once and in the shortest form. Then
keys stand where they must stand, and finding them takes a fraction of the time of asking a parser. Range, Put and
DeleteRange show by themselves that they are written so; a Txn is looked at in our own serialisation. Rule: a harmless
call may be missed, for there is the full examination, but whatever is called plain here must pass that unchanged.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

_SECOND: Final = 2 << 3 | 2
"""The tag (number << 3 | wire type) of the bytes behind the key: Range's and DeleteRange's range_end, Put's value."""
_CONTINUES: Final = 0x80
"""In a number's byte: there is another one."""

_NOWHERE: Final = (0, 1 << 62)  # behind the end of anything
_TO_KEY: Final = 3  # tag, length and first byte of a key
_NUMBER: Final = rb"[\x80-\xff]{0,8}[\x01-\x7f]"
"""Above 0 and below 2**63, in the shortest form."""
_KEY: Final = rb"[\x01-\x7f](?!%(gated)s)[\x02-\xff]"
"""The length of a key (no longer one is looked at) and its first byte: no reserved key's, and no gated prefix."""
_REQUEST: Final = rb"\x0a" + _KEY
"""Range, Put and DeleteRange all begin with the key."""
_LENGTH: Final = rb"[\x80-\xff]*[\x00-\x7f]"
"""The length of a message inside, whatever it is."""
_COMPARE: Final = rb"\x0a" + _LENGTH + rb"(?:\x08[\x01-\x03])?(?:\x10[\x01-\x04])?\x1a" + _KEY
"""A Txn's compare: result and target, where they are not the first one, must have a name; then comes the key."""
_OPERATION: Final = rb"[\x12\x1a]" + _LENGTH + rb"(?:[\x12\x1a]|(\x0a))" + _LENGTH + _REQUEST
"""An operation of Then or Else: a Put or a DeleteRange, or (the group) a Range, and its key."""

# What may follow then. All but the order of a Range: a sort by something unknown stops etcd.
_AFTER_RANGE: Final = re.compile(
    rb"(?:\x18%(n)s)?(?:\x20%(n)s)?(?:\x38\x01)?(?:\x40\x01)?(?:\x48\x01)?" % {b"n": _NUMBER}
).fullmatch
_AFTER_PUT: Final = re.compile(rb"(?:\x18%(n)s)?(?:\x20\x01)?" % {b"n": _NUMBER}).fullmatch
_AFTER_DELETE: Final = re.compile(rb"(?:\x18\x01)?").fullmatch

LARGEST_TXN_BYTES: Final = 16 * 1024
"""Of the usual size, so with far fewer parts than are too many, and looked through in no time."""


class Glance:
    """Judges by the prefixes that are gated."""

    __slots__ = ("_part", "_request")

    def __init__(self, prefixes: Sequence[bytes]) -> None:
        gated = {b"gated": b"|".join(map(re.escape, prefixes)) or rb"(?!)"}
        self._request = re.compile(_REQUEST % gated).match
        self._part = re.compile((_COMPARE + b"|" + _OPERATION) % gated).match

    def range_is_plain(self, message: bytes) -> bool:
        """A Range, as it came, of a key, or from a key on, that is neither gated nor reserved."""
        return self._request(message) is not None and _rest(message, _AFTER_RANGE)

    def delete_is_plain(self, message: bytes) -> bool:
        """A DeleteRange of such keys, as it came."""
        return self._request(message) is not None and _rest(message, _AFTER_DELETE)

    def put_is_plain(self, message: bytes) -> bool:
        """A Put of such a key, as it came."""
        return self._request(message) is not None and _rest(message, _AFTER_PUT)

    def txn_is_plain(self, own: bytes) -> bool:
        """A flat Txn of such compares and operations, in our serialisation."""
        at, size = 0, len(own)
        if size > LARGEST_TXN_BYTES:
            return False
        while at < size:
            part = self._part(own, at)
            if part is None:
                return False
            length, at = own[at + 1], at + 2
            if length >= _CONTINUES:
                length, at = _longer(own, at, length)
            at += length
            if part.lastindex and not self.range_is_plain(own[part.end() - _TO_KEY : at]):
                return False
        return at == size


def _rest(message: bytes, matches: Callable[[bytes, int], object]) -> bool:
    """Whether what comes behind the key is one more field of bytes, or none, and then what `matches`."""
    at, size = 2 + message[1], len(message)
    if at + 1 < size and message[at] == _SECOND:
        length, at = message[at + 1], at + 2
        if length >= _CONTINUES:
            length, at = _longer(message, at, length)
        at += length
    return at == size or (at < size and matches(message, at) is not None)


def _longer(message: bytes, at: int, first: int) -> tuple[int, int]:
    """A length of two bytes, of which the first was read, and where its field begins; `_NOWHERE` for any other."""
    if at < len(message) and 0 < message[at] < _CONTINUES:
        return first & 0x7F | message[at] << 7, at + 1
    return _NOWHERE

"""Resume tokens: up to where a stream has told everything, in etcd's revisions, so that every proxy understands them.

The rule: a token never claims more than was told. It is opaque to callers, and refused where it is not one of ours or
of a stream with other filters, whose gaps would be others.
"""

from dataclasses import astuple, dataclass
from typing import Any

from greenroom.control import opaque
from greenroom.errors import InvalidRequest

VERSION = 1
MAX_REVISION = 2**63 - 1
"""etcd's own largest number of one."""


@dataclass(frozen=True, slots=True)
class ResumeToken:
    """Where a stream stands.

    `cluster` is etcd's id. Everything up to `revision` was told, of workers' addresses what was known up to
    `addresses` (a revision for each prefix that has some), and nothing that is newer than `newest`. `whole`: nothing at
    all that is newer than this place; else something was told that may have gone again since, and history, which is
    read at the place and now, would not tell of that.
    """

    cluster: int
    revision: int
    newest: int
    addresses: tuple[int, ...]
    whole: bool = True


def encode(token: ResumeToken, filters: str) -> str:
    """The token as callers get it; `filters` is any text of what the stream is about."""
    return opaque.encode([VERSION, opaque.digest(filters), *astuple(token)])


def decode(text: str, filters: str) -> ResumeToken:
    """The token again; InvalidRequest for anything else, and for one of other filters."""
    try:
        version, digest, cluster, revision, newest, addresses, whole = opaque.decode(text)
        numbers = (version, cluster, revision, newest, *addresses)
    except (ValueError, TypeError):
        raise _wrong("is no resume_token of this version") from None
    if version != VERSION or not all(map(_is_number, numbers)) or not 1 <= revision <= MAX_REVISION:
        raise _wrong("is no resume_token of this version")
    if max(newest, *addresses, 0) > MAX_REVISION or type(whole) is not bool:
        raise _wrong("is no resume_token of this version")
    if digest != opaque.digest(filters):
        raise _wrong("is of a stream with other filters")
    return ResumeToken(cluster, revision, newest, tuple(addresses), whole)


def _is_number(value: Any) -> bool:
    return type(value) is int and value >= 0


def _wrong(words: str) -> InvalidRequest:
    return InvalidRequest(f"resume_token: {words}", field="resume_token")

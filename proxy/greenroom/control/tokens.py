"""Resume tokens: up to where a stream has told everything, in etcd's revisions, so that every proxy understands them.

The rule: a token never claims more than was told. It is opaque to callers, and refused where it is not one of ours or
of a stream with other filters, whose gaps would be others.
"""

import base64
import hashlib
import json
from dataclasses import astuple, dataclass
from typing import Any

from greenroom.errors import InvalidRequest

VERSION = 1
MAX_REVISION = 2**63 - 1
"""etcd's own largest number of one."""
MAX_CHARACTERS = 1000
"""Ours have some hundred; what is longer is not even parsed."""


@dataclass(frozen=True, slots=True)
class ResumeToken:
    """Where a stream stands.

    `cluster` is etcd's id. Everything up to `revision` was told, of workers' addresses what was known up to
    `addresses` (a revision for each prefix that has some), and nothing that is newer than `newest`.
    """

    cluster: int
    revision: int
    newest: int
    addresses: tuple[int, ...]


def encode(token: ResumeToken, filters: str) -> str:
    """The token as callers get it; `filters` is any text of what the stream is about."""
    return base64.urlsafe_b64encode(json.dumps([VERSION, _digest(filters), *astuple(token)]).encode()).decode()


def decode(text: str, filters: str) -> ResumeToken:
    """The token again; InvalidRequest for anything else, and for one of other filters."""
    if len(text) > MAX_CHARACTERS:
        raise _wrong("is no resume_token of this version")
    try:
        version, digest, cluster, revision, newest, addresses = json.loads(base64.urlsafe_b64decode(text.encode()))
        numbers = (version, cluster, revision, newest, *addresses)
    except (ValueError, TypeError):
        raise _wrong("is no resume_token of this version") from None
    if version != VERSION or not all(map(_is_number, numbers)) or not 1 <= revision <= MAX_REVISION:
        raise _wrong("is no resume_token of this version")
    if max(newest, *addresses, 0) > MAX_REVISION:
        raise _wrong("is no resume_token of this version")
    if digest != _digest(filters):
        raise _wrong("is of a stream with other filters")
    return ResumeToken(cluster, revision, newest, tuple(addresses))


def _is_number(value: Any) -> bool:
    return type(value) is int and value >= 0


def _wrong(words: str) -> InvalidRequest:
    return InvalidRequest(f"resume_token: {words}", field="resume_token")


def _digest(filters: str) -> str:
    return hashlib.sha256(filters.encode()).hexdigest()[:8]

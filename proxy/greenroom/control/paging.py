"""Pages of a list in a fixed order: the token says after which item to go on, so what comes or goes breaks nothing."""

import base64
import hashlib
import json
from collections.abc import Callable, Iterable
from typing import TypeVar

from greenroom.errors import InvalidRequest

ItemT = TypeVar("ItemT")
Place = tuple[str, ...]
"""Where an item stands in the list's order."""


def page_of(
    items: Iterable[ItemT], place: Callable[[ItemT], Place], *, size: int, token: str, filters: str = ""
) -> tuple[list[ItemT], str]:
    """The items after those that `token` names, at most `size`, and the token of the next page, empty on the last.

    `filters` is any text of what the list was narrowed to. InvalidRequest for a token of other filters, or of none.
    """
    after = _after(token, filters) if token else None
    following = sorted((item for item in items if after is None or place(item) > after), key=place)
    page = following[:size]
    return page, _token(place(page[-1]), filters) if len(following) > size else ""


def _token(place: Place, filters: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([_digest(filters), *place]).encode()).decode()


def _after(token: str, filters: str) -> Place:
    try:
        digest, *place = json.loads(base64.urlsafe_b64decode(token.encode()))
    except (ValueError, TypeError):
        raise InvalidRequest("page_token: is not a next_page_token of this list", field="page_token") from None
    if digest != _digest(filters) or not all(isinstance(part, str) for part in place):
        raise InvalidRequest("page_token: is of a list with other filters", field="page_token")
    return tuple(place)


def _digest(filters: str) -> str:
    return hashlib.sha256(filters.encode()).hexdigest()[:8]

"""Pages of a list in a fixed order: the token says after which item to go on, so what comes or goes breaks nothing."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar

from google.protobuf.message import Message

from greenroom.control import opaque
from greenroom.errors import InvalidRequest

MAX_PAGE_BYTES = 3 * 1024 * 1024
"""gRPC's clients refuse an answer of more than 4 MiB unless told otherwise, and one instance is far below the rest."""

ItemT = TypeVar("ItemT")
MessageT = TypeVar("MessageT", bound=Message)
Place = tuple[str, ...]
"""Where an item stands in the list's order."""


def page_of(
    items: Iterable[ItemT],
    place: Callable[[ItemT], Place],
    message: Callable[[ItemT], MessageT],
    *,
    size: int,
    token: str,
    filters: str = "",
) -> tuple[list[MessageT], str]:
    """As `page_after`, of items in any order."""

    def following(after: Place | None) -> Iterable[ItemT]:
        return sorted((item for item in items if after is None or place(item) > after), key=place)

    return page_after(following, place, message, size=size, token=token, filters=filters)


def page_after(
    following: Callable[[Place | None], Iterable[ItemT]],
    place: Callable[[ItemT], Place],
    message: Callable[[ItemT], MessageT],
    *,
    size: int,
    token: str,
    filters: str = "",
) -> tuple[list[MessageT], str]:
    """The items after those that `token` names, as messages, and the token of the next page, empty on the last.

    `following` gives the items after a place (None: all) in their order; no more are taken than the page needs.
    At most `size` of them, and fewer where they are so long that the page would become too large to be received.
    `filters` is any text of what the list was narrowed to. InvalidRequest for a token of other filters, or of none.
    """
    found = list(islice(following(_after(token, filters) if token else None), size + 1))
    page = _that_fit(map(message, found[:size]))
    return page, _token(place(found[len(page) - 1]), filters) if len(found) > len(page) else ""


def _that_fit(messages: Iterable[MessageT]) -> list[MessageT]:
    """The first ones that are small enough together; always one, or the list would never come to its end."""
    page: list[MessageT] = []
    total_bytes = 0
    for message in messages:
        total_bytes += message.ByteSize()
        if page and total_bytes > MAX_PAGE_BYTES:
            break
        page.append(message)
    return page


def _token(place: Place, filters: str) -> str:
    return opaque.encode([opaque.digest(filters), *place])


def _after(token: str, filters: str) -> Place:
    try:
        digest, *place = opaque.decode(token)
    except (ValueError, TypeError):
        raise InvalidRequest("page_token: is not a next_page_token of this list", field="page_token") from None
    if digest != opaque.digest(filters) or not all(isinstance(part, str) for part in place):
        raise InvalidRequest("page_token: is of a list with other filters", field="page_token")
    return tuple(place)

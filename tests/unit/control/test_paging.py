"""Pages: every item once, whatever comes and goes between two of them."""

from itertools import count

import pytest
from google.protobuf.wrappers_pb2 import StringValue
from hypothesis import given
from hypothesis import strategies as st

from greenroom.control import paging
from greenroom.control.paging import page_after, page_of
from greenroom.errors import InvalidRequest


def message(item: str) -> StringValue:
    return StringValue(value=item)


def texts(page: list[StringValue]) -> list[str]:
    return [one.value for one in page]


def place(item: str) -> tuple[str, ...]:
    return (item[:1], item)


@given(st.sets(st.text("abä", max_size=3), max_size=12), st.integers(1, 5))
def test_the_pages_together_are_the_sorted_list(items: set[str], size: int) -> None:
    seen: list[str] = []
    token = ""
    for _ in range(len(items) + 1):
        page, token = page_of(items, place, message, size=size, token=token)
        assert len(page) <= size
        seen += texts(page)
        if not token:
            break
    assert not token
    assert seen == sorted(items, key=place)


def test_an_item_that_leaves_takes_no_other_with_it() -> None:
    page, token = page_of("abcd", place, message, size=2, token="")
    assert texts(page) == ["a", "b"]
    page, token = page_of("acd", place, message, size=2, token=token)
    assert (texts(page), token) == (["c", "d"], "")


def test_a_page_ends_before_it_is_too_large_and_one_that_is_too_large_alone_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(paging, "MAX_PAGE_BYTES", 30)
    items = ["a" * 10, "b" * 10, "c" * 100, "d" * 10]
    pages, token = [], ""
    while not pages or token:
        page, token = page_of(items, place, message, size=3, token=token)
        pages.append(texts(page))
    assert pages == [items[:2], items[2:3], items[3:]]


def test_a_token_is_bound_to_its_filters() -> None:
    _, token = page_of("abc", place, message, size=1, token="", filters="held")
    with pytest.raises(InvalidRequest, match="other filters"):
        page_of("abc", place, message, size=1, token=token, filters="released")


@pytest.mark.parametrize("token", ["?", "e30=", "bnVsbA==", "W10=", "WyI5MmZhM2QzMSIsIDFd", "é"])
def test_what_was_never_a_token_is_refused_in_words(token: str) -> None:
    with pytest.raises(InvalidRequest, match="page_token"):
        page_of("abc", place, message, size=1, token=token)


def test_no_more_is_taken_than_the_page_needs() -> None:
    """And one, which says whether there is another page."""
    endless = map(str, count())
    page, token = page_after(lambda _: endless, place, message, size=3, token="")
    assert texts(page) == ["0", "1", "2"]
    assert token
    assert next(endless) == "4"

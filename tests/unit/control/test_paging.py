"""Pages: every item once, whatever comes and goes between two of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.control.paging import page_of
from greenroom.errors import InvalidRequest


def place(item: str) -> tuple[str, ...]:
    return (item[:1], item)


@given(st.sets(st.text(max_size=3), max_size=12), st.integers(1, 5))
def test_the_pages_together_are_the_sorted_list(items: set[str], size: int) -> None:
    seen: list[str] = []
    token = ""
    while True:
        page, token = page_of(items, place, size=size, token=token)
        assert len(page) <= size
        seen += page
        if not token:
            break
    assert seen == sorted(items, key=place)


def test_an_item_that_leaves_takes_no_other_with_it() -> None:
    page, token = page_of("abcd", place, size=2, token="")
    assert page == ["a", "b"]
    assert page_of("acd", place, size=2, token=token) == (["c", "d"], "")


def test_a_token_is_bound_to_its_filters() -> None:
    _, token = page_of("abc", place, size=1, token="", filters="held")
    with pytest.raises(InvalidRequest, match="other filters"):
        page_of("abc", place, size=1, token=token, filters="released")


@pytest.mark.parametrize("token", ["?", "e30=", "bnVsbA==", "W10=", "WyI5MmZhM2QzMSIsIDFd", "é"])
def test_what_was_never_a_token_is_refused_in_words(token: str) -> None:
    with pytest.raises(InvalidRequest, match="page_token"):
        page_of("abc", place, size=1, token=token)

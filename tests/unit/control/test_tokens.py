"""Resume tokens: read back as they were written, and nothing else is taken for one."""

import pytest

from greenroom.control.opaque import encode as made_of
from greenroom.control.tokens import ResumeToken, decode, encode
from greenroom.errors import InvalidRequest

TOKEN = ResumeToken(cluster=2**64 - 1, revision=41, newest=42, addresses=(7, 9), whole=False)


def test_it_is_read_back_as_it_was_written() -> None:
    assert decode(encode(TOKEN, "x"), "x") == TOKEN


def test_one_of_other_filters_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="resume_token: is of a stream with other filters"):
        decode(encode(TOKEN, "x"), "y")


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "ü",
        made_of([]),
        made_of({"a": 1}),
        made_of(7),
        made_of([2, "d", 1, 1, 1, [1], True]),
        made_of([1, "d", 1, 0, 1, [1], True]),
        made_of([1, "d", 1, -5, 1, [1], True]),
        made_of([1, "d", 1, True, 1, [1], True]),
        made_of([1, "d", 1, 1, 1, ["a"], True]),
        made_of([1, "d", 1, 1, 1, 5, True]),
        made_of([1, "d", 1, 2**63, 1, [1], True]),
        made_of([1, "d", 1, 1, 2**63, [1], True]),
        made_of([1, "d", 1, 1, 1, [2**63], True]),
        made_of([1, "d", 1, 1, 1, [1], 1]),
        made_of([1, "d", 1, 1, 1, [1]]),
        "W" * 100_000,
    ],
)
def test_what_is_no_token_is_refused_by_the_fields_name(text: str) -> None:
    with pytest.raises(InvalidRequest, match="resume_token: is no resume_token of this version") as wrong:
        decode(text, "d")
    assert wrong.value.metadata == {"field": "resume_token"}


def test_one_that_is_right_but_for_its_filters_is_refused_for_these_alone() -> None:
    """So that what the cases above are refused for is what is wrong with them."""
    with pytest.raises(InvalidRequest, match="other filters"):
        decode(made_of([1, "d", 1, 1, 1, [1], True]), "d")

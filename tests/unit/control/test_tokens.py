"""Resume tokens: read back as they were written, and nothing else is taken for one."""

import base64
import json

import pytest

from greenroom.control.tokens import ResumeToken, decode, encode
from greenroom.errors import InvalidRequest

TOKEN = ResumeToken(cluster=2**64 - 1, revision=41, newest=42, addresses=(7, 9))


def test_it_is_read_back_as_it_was_written() -> None:
    assert decode(encode(TOKEN, "x"), "x") == TOKEN


def test_one_of_other_filters_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="resume_token: is of a stream with other filters"):
        decode(encode(TOKEN, "x"), "y")


def made_of(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "ü",
        made_of([]),
        made_of({"a": 1}),
        made_of(7),
        made_of([2, "d", 1, 1, 1, [1]]),
        made_of([1, "d", 1, 0, 1, [1]]),
        made_of([1, "d", 1, -5, 1, [1]]),
        made_of([1, "d", 1, True, 1, [1]]),
        made_of([1, "d", 1, 1, 1, ["a"]]),
        made_of([1, "d", 1, 1, 1, 5]),
        made_of([1, "d", 1, 2**63, 1, [1]]),
        made_of([1, "d", 1, 1, 2**63, [1]]),
        made_of([1, "d", 1, 1, 1, [2**63]]),
        "W" * 100_000,
    ],
)
def test_what_is_no_token_is_refused_by_the_fields_name(text: str) -> None:
    with pytest.raises(InvalidRequest, match="resume_token: is no resume_token of this version") as wrong:
        decode(text, "d")
    assert wrong.value.metadata == {"field": "resume_token"}

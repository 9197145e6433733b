"""Opaque tokens: read back as they were written; whatever else comes is refused, and costs nothing."""

import base64

import pytest

from greenroom.control.opaque import MAX_CHARACTERS, decode, digest, encode


def test_a_value_is_read_back_as_it_was_written() -> None:
    assert decode(encode([1, "ü", [2**63, True]])) == [1, "ü", [2**63, True]]


@pytest.mark.parametrize("depth", [10, 1_000, 2_900, 100_000])
def test_a_deep_one_is_refused_like_any_other(depth: int) -> None:
    """It would be answered INTERNAL, and logged as a bug of ours."""
    with pytest.raises(ValueError, match=r"Expecting value|is nested too deep|is longer than"):
        decode(base64.urlsafe_b64encode(b"[" * depth).decode())


def test_a_long_one_is_not_even_read() -> None:
    with pytest.raises(ValueError, match=f"longer than {MAX_CHARACTERS} characters"):
        decode(encode("x" * MAX_CHARACTERS))


def test_other_filters_have_another_digest() -> None:
    assert digest("held") == digest("held") != digest("released")

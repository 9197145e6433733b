"""Tokens: made at random, carried in a header, known again by a hash."""

import pytest

from greenroom.access.tokens import MAX_TOKEN_BYTES, TOKEN_BYTES, bearer, digest_of, is_digest, is_token, new_token


def test_a_new_token_is_nobodys_and_can_be_carried() -> None:
    made = {new_token() for _ in range(100)}
    assert len(made) == 100
    assert all(is_token(token) and bearer(f"Bearer {token}") == token for token in made)
    assert TOKEN_BYTES * 8 >= 128
    assert all(len(token) >= len("greenroom_") + TOKEN_BYTES for token in made)


def test_a_hash_is_that_of_the_whole_token() -> None:
    """As `printf %s TOKEN | sha256sum` has it."""
    assert digest_of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert is_digest(digest_of("abc"))


@pytest.mark.parametrize("text", ["", "abc", "A" * 64, "a" * 63, "a" * 65, "a" * 64 + "\n", "greenroom_" + "a" * 54])
def test_what_is_no_hash(text: str) -> None:
    assert not is_digest(text)


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer abc", "abc"),
        ("BEARER  abc ", "abc"),
        ("Bearer a-._~+/z==", "a-._~+/z=="),
        ("Bearer", None),
        ("Bearer ", None),
        ("abc", None),
        ("Basic YTpi", None),
        ("Bearer a b", None),
        ("Bearer a,Bearer b", None),
        ("Bearer ü", None),
        ("Bearer " + "a" * (MAX_TOKEN_BYTES + 1), None),
        ("", None),
    ],
)
def test_what_a_header_carries(header: str, token: str | None) -> None:
    assert bearer(header) == token

"""Passwords out of files: what is one, and what is said of what is none."""

from pathlib import Path

import pytest

from greenroom.passwords import MAX_PASSWORD_BYTES, read_password, read_secret


@pytest.mark.parametrize(
    ("content", "password"),
    [
        (b"secret", "secret"),
        (b"secret\n", "secret"),
        (b"secret\r\n", "secret"),
        (b" a b \n", " a b "),
        ("ß".encode(), "ß"),
    ],
)
def test_a_password_is_one_line(tmp_path: Path, content: bytes, password: str) -> None:
    path = tmp_path / "password"
    path.write_bytes(content)
    assert read_password(path) == password


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"secret\nother\n", "more than one line"),
        (b"secret\xff", "not UTF-8"),
        (b"secret" * MAX_PASSWORD_BYTES, "larger than"),
    ],
)
def test_what_is_no_password_is_not_quoted(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "password"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=said) as raised:
        read_password(path)
    assert "secret" not in str(raised.value)
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        read_password(tmp_path / "absent")


def test_other_secrets_are_called_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_bytes(b"abc\n")
    assert read_secret(path, "token") == "abc"
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="is empty: it should have a token"):
        read_secret(path, "token")

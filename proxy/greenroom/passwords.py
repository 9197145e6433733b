"""Secrets out of files: never on a command line, where every process of the machine can read them."""

from pathlib import Path

MAX_PASSWORD_BYTES = 4096
"""A larger file is another file."""


def read_password(path: Path) -> str:
    """The one line of a file, without its end. ValueError, in words, that says nothing of what is in the file."""
    return read_secret(path, "password")


def read_secret(path: Path, what: str) -> str:
    """The same for any secret; `what` it is, for the words."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_PASSWORD_BYTES + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    if len(content) > MAX_PASSWORD_BYTES:
        raise ValueError(f"is larger than {MAX_PASSWORD_BYTES} bytes: that is no {what}")
    try:
        secret = content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        # Without its cause, which quotes what it could not decode.
        raise ValueError("is not UTF-8 text") from None
    if not secret:
        raise ValueError(f"is empty: it should have a {what}")
    if "\n" in secret:
        raise ValueError("has more than one line")
    return secret

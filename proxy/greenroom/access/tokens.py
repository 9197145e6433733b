"""Tokens: how one is made, how a call carries it, and the hash by which it is known again.

The rule: a token is in no file of the proxy's, in no log and in no error. It is random, so a plain hash is enough:
there is nothing to guess that a slow one would protect.
"""

import hashlib
import re
import secrets
from typing import Final

TOKEN_PREFIX: Final = "greenroom_"
"""By which scanners of repositories and logs know what they have found."""
TOKEN_BYTES: Final = 32
"""Twice the 128 bits below which somebody could try them all."""
MAX_TOKEN_BYTES: Final = 1024
"""Tokens that others make are no longer; nobody's longer text is worth hashing."""
SCHEME: Final = "bearer"
# RFC 6750, section 2.1.
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


def new_token() -> str:
    """A token that nobody has."""
    return TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)


def is_token(text: str) -> bool:
    """Whether a header can carry it as a bearer token."""
    return len(text) <= MAX_TOKEN_BYTES and _TOKEN.fullmatch(text) is not None


def digest_of(token: str) -> str:
    """The SHA-256 of a token in hex: what the access file has of it."""
    return hashlib.sha256(token.encode()).hexdigest()


def is_digest(text: str) -> bool:
    """Whether it can be the hash of a token."""
    return _DIGEST.fullmatch(text) is not None


def bearer(authorization: str) -> str | None:
    """The token of an Authorization header's value; None for anything else."""
    scheme, _, token = authorization.strip().partition(" ")
    return token if scheme.lower() == SCHEME and is_token(token := token.strip()) else None

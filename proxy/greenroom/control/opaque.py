"""Tokens that callers are given and give back: JSON that nobody is to look into, in letters that fit anywhere.

The rule: what is not one of ours is refused as that, however long, deep or odd it is.
"""

import base64
import hashlib
import json
from typing import Any

MAX_CHARACTERS = 4000
"""The longest of ours, which has a revision for each of a policy's templates, is far shorter."""


def encode(value: Any) -> str:
    """A value of JSON as a token."""
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


def decode(text: str) -> Any:
    """The value again; ValueError for what cannot be one of ours."""
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"is longer than {MAX_CHARACTERS} characters")
    try:
        return json.loads(base64.urlsafe_b64decode(text.encode()))
    except RecursionError:
        raise ValueError("is nested too deep") from None


def digest(filters: str) -> str:
    """Enough of the filters to tell a token of others."""
    return hashlib.sha256(filters.encode()).hexdigest()[:8]

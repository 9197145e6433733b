"""Contexts that stand for whatever was read last.

asyncio, uvloop and uvicorn keep the context that they were given for as long as they listen; but each connection begins
with a `wrap_bio` of it. So new connections are made by the newest context, and those that stand keep their own.
"""

import ssl
from collections.abc import Callable
from typing import Any


class NewestContext(ssl.SSLContext):
    """Makes connections by whichever context `newest` gives at that moment."""

    newest: Callable[[], ssl.SSLContext]

    def __new__(cls, newest: Callable[[], ssl.SSLContext]) -> "NewestContext":
        return super().__new__(cls, newest().protocol)

    def __init__(self, newest: Callable[[], ssl.SSLContext]) -> None:
        self.newest = newest

    def wrap_bio(self, *ends: Any, **options: Any) -> ssl.SSLObject:
        """As ssl has it."""
        return self.newest().wrap_bio(*ends, **options)

"""The command line is put together once for these tests: that takes longer than what each of them asks of it."""

from collections.abc import Iterator
from functools import cache

import pytest
import typer.main


@pytest.fixture(autouse=True, scope="session")
def _put_together_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(typer.main, "get_command", cache(typer.main.get_command))
        yield

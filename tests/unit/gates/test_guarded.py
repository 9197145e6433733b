"""What is kept of a command's standard error. Processes: tests/integration/test_guarded.py."""

import asyncio
import socket
from typing import Any

import pytest

from greenroom.gates.guarded import Run, _Errors


@pytest.mark.parametrize(
    ("said", "kept"), [(b"x" * 5000 + b" end\n", "x" * 2043 + " end"), (b"\xc3\xa4" * 2000 + b"z", "ä" * 1023 + "z")]
)
async def test_the_end_is_kept_in_whole_characters(said: bytes, kept: str) -> None:
    nothing: Any = None
    reader = asyncio.StreamReader()
    with socket.socket() as starter:
        run = Run(nothing, starter, _Errors(reader, nothing), "")
        reader.feed_data(said)
        reader.feed_eof()
        await run._reading
        assert run.stderr == kept

"""The guard's words and what it reads of /proc. As a process: tests/integration/test_guard.py."""

import errno
import os

import pytest

from greenroom.gates.guard import _in_words, _parent_and_group, _processes


@pytest.mark.parametrize(
    ("program", "number", "code", "words"),
    [
        ("smoke", errno.ENOENT, 127, "cannot run 'smoke': there is no such program on PATH"),
        ("./smoke", errno.ENOENT, 127, "cannot run './smoke': No such file or directory"),
        ("./smoke", errno.EACCES, 126, "cannot run './smoke': Permission denied"),
        ("./smoke", errno.ENOEXEC, 126, "cannot run './smoke': it is no program, nor a script that begins with #!"),
    ],
)
def test_what_cannot_be_started_has_the_code_of_shells(program: str, number: int, code: int, words: str) -> None:
    error = _in_words(program, number)
    assert (str(error), error.code) == (words, code)


def test_a_process_has_a_parent_and_a_group() -> None:
    me = str(os.getpid())
    assert me in _processes()
    assert _parent_and_group(me) == (os.getppid(), os.getpgrp())
    assert _parent_and_group("0") == (0, 0), "there is none"

"""The command line as it describes itself: whether commands that documents and manifests show would be understood."""

import re
import shlex
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import typer

from greenroom.cli.main import app

PROGRAM = "greenroom"
_BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
_INLINE = re.compile(r"`greenroom ([^`]+)`")
_ENDS = frozenset({"|", ">", ">>", "&", "&&", ";", "2>"})


def shown_in_blocks(page: Path) -> list[list[str]]:
    """The words after `greenroom` of each of a page's commands, without redirections."""
    lines = "\n".join(_BLOCK.findall(page.read_text())).replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := _command(line))]


def shown_in_text(path: Path) -> list[list[str]]:
    """The words of each command that stands in backticks in a text of any kind; it may lack arguments."""
    return [shlex.split(" ".join(text.split())) for text in _INLINE.findall(path.read_text())]


def unknown(words: Sequence[str]) -> str | None:
    """What in the words of a command, which may lack arguments, is no command or option; None where all is known."""
    command: Any = typer.main.get_command(app)
    known = command
    for place, word in enumerate(words):
        if word.startswith("-"):
            option = word.partition("=")[0]
            if option not in {name for parameter in known.params for name in parameter.opts}:
                return f"{option} of {PROGRAM} {' '.join(words[:place])}"
        elif hasattr(known, "commands"):
            if word not in known.commands:
                return f"{PROGRAM} {' '.join(words[: place + 1])}"
            known = known.commands[word]
    return None


def parsed(words: Sequence[str]) -> dict[str, Any]:
    """What the command makes of its words, by parameter; an error of click's, as a person would see it."""
    command: Any = typer.main.get_command(app)
    rest = list(words)
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    parameters: dict[str, Any] = command.make_context(PROGRAM, rest).params
    return parameters


def _command(line: str) -> list[str]:
    words = shlex.split(line, comments=True)
    after = words[words.index(PROGRAM) + 1 :] if PROGRAM in words else []
    return list(takewhile(lambda word: word not in _ENDS, after))

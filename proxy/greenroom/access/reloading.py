"""The access file in force: looked at each second, and taken over once it says something else that is right.

The rule: a file that is wrong or gone changes nothing, and is told of. Half a file may well be right, and know half the
callers, so a change is read once it has held still.
"""

import asyncio
from pathlib import Path
from typing import Any, Final

from greenroom.access.entries import parse_entries
from greenroom.access.known import KnownCallers
from greenroom.changing_files import ChangingFiles
from greenroom.yaml_files import YamlFileError, read_text

LOOK_SECONDS: Final = 1.0
"""A revoked token is of use for no longer than two of them."""


class AccessInForce:
    """What the file said when it was last right. Made at the start: YamlFileError where it is wrong then."""

    def __init__(self, path: Path, *, log: Any) -> None:
        self._path, self._log = path, log
        self._file = ChangingFiles([path], lambda: _callers_in(path))
        self.known = KnownCallers(parse_entries(read_text(path)))
        self.failures = 0
        self._why_refused: str | None = None

    @property
    def is_newest(self) -> bool:
        """Whether the file as it is now is the one in force."""
        return self._why_refused is None

    async def run(self) -> None:
        """Looks at the file until cancelled."""
        self._log.info("access.loaded", file=str(self._path), callers=self.known.number)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Takes over what changed and has held still since the last look, and tells of it."""
        match await asyncio.to_thread(self._file.look):
            case KnownCallers() as known:
                self._take(known)
            case YamlFileError() as error:
                self._refuse(str(error))

    def _take(self, known: KnownCallers) -> None:
        self.known, self._why_refused = known, None
        self._log.info("access.reloaded", file=str(self._path), callers=known.number)

    def _refuse(self, why: str) -> None:
        """Told once for each thing that is wrong."""
        if why == self._why_refused:
            return
        self._why_refused = why
        self.failures += 1
        self._log.error("access.not.reloaded", file=str(self._path), why=why, in_force="what it said before")


def _callers_in(path: Path) -> KnownCallers | YamlFileError:
    try:
        return KnownCallers(parse_entries(read_text(path)))
    except YamlFileError as error:
        return error

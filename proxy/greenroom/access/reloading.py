"""The access file in force: looked at each second, and taken over as soon as it says something else that is right.

The rule: it is read whole each time, since a time of change can stay the same over an edit. A file that is wrong or
gone changes nothing, and is told of.
"""

import asyncio
from pathlib import Path
from typing import Any, Final

from greenroom.access.entries import parse_entries
from greenroom.access.known import KnownCallers
from greenroom.yaml_files import YamlFileError, read_text

LOOK_SECONDS: Final = 1.0
"""A revoked token is of use for no longer than this. The file is read in some microseconds."""


class AccessInForce:
    """What the file said when it was last right. Made at the start: YamlFileError where it is wrong then."""

    def __init__(self, path: Path, *, log: Any) -> None:
        self._path, self._log = path, log
        self._text: str | None = read_text(path)
        self.known = KnownCallers(parse_entries(self._text))
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
        """Takes over what changed since the last look, and tells of it."""
        try:
            text = await asyncio.to_thread(read_text, self._path)
        except YamlFileError as error:
            # It may come back as it was, which is then a change too.
            self._text = None
            self._refuse(str(error))
            return
        if text != self._text:
            self._text = text
            self._take(text)

    def _take(self, text: str) -> None:
        try:
            self.known = KnownCallers(parse_entries(text))
        except YamlFileError as error:
            self._refuse(str(error))
            return
        self._why_refused = None
        self._log.info("access.reloaded", file=str(self._path), callers=self.known.number)

    def _refuse(self, why: str) -> None:
        """Told once for each thing that is wrong."""
        if why == self._why_refused:
            return
        self._why_refused = why
        self.failures += 1
        self._log.error("access.not.reloaded", file=str(self._path), why=why, in_force="what it said before")

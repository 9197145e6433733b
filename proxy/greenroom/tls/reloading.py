"""Files that are read again when they change: one set, and what was made of it last.

The rule: what is in use stays in use until the files as a whole can take its place: a certificate and its key are two
files, and nobody can write both at once.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from greenroom.changing_files import ChangingFiles
from greenroom.errors import SettingsError
from greenroom.tls.contexts import Loaded
from greenroom.tls.files import TlsFiles

LOOK_SECONDS: Final = 2.0
"""Certificates are replaced days before they end."""


class Reloaded:
    """One use of TLS, by its files. `load` makes of them what is used, or raises SettingsError, as this does at first.

    `reloads` and `failures` count what came after the start; `failure` says why the files as they are now are not used.
    """

    def __init__(self, use: str, files: TlsFiles, load: Callable[[TlsFiles], Loaded], *, log: Any) -> None:
        self.use, self._files, self._load, self._log = use, files, load, log
        self._changing = ChangingFiles(files.paths, self._found)
        self.loaded = load(files)
        self.reloads = self.failures = 0
        self.failure: str | None = None

    def __repr__(self) -> str:
        return f"<Reloaded {self.use}: {self._files}>"

    def look(self) -> None:
        """Whether the files have changed and hold still; if so, and if they are good, they are used from here on."""
        match self._changing.look():
            case Loaded() as loaded:
                self._take_up(loaded)
            case SettingsError() as error:
                self._refuse(str(error))

    def warn_of_open_key(self) -> None:
        """Tells where more than its owner may read the key."""
        pair = self._files.pair
        if pair is not None and (mode := pair.key.open_to_others()):
            self._log.warning("tls.key.open.to.others", use=self.use, file=str(pair.key), mode=mode)

    def _found(self) -> Loaded | SettingsError:
        try:
            return self._load(self._files)
        except SettingsError as error:
            return error

    def _take_up(self, loaded: Loaded) -> None:
        self.loaded, self.failure = loaded, None
        self.reloads += 1
        self.warn_of_open_key()
        self._log.info("tls.reloaded", use=self.use, files=str(self._files), expires=_text(loaded))

    def _refuse(self, why: str) -> None:
        self.failure = why
        self.failures += 1
        self._log.error("tls.not.reloaded", use=self.use, reason=why, until="the files change again")


async def keep_looking(all_of_them: Sequence[Reloaded]) -> NoReturn:
    """Looks at each every LOOK_SECONDS, until cancelled."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        for reloaded in all_of_them:
            reloaded.look()


def _text(loaded: Loaded) -> str:
    return loaded.expires.isoformat() if loaded.expires else "never"

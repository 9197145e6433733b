"""Files that are read again when they change: one set, and what was made of it last.

The rule: what is in use stays in use until the files as a whole can take its place. A change is looked at once it has
held still for a round, since a certificate and its key are two files, and nobody can write both at once.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from greenroom.errors import SettingsError
from greenroom.tls.contexts import Loaded
from greenroom.tls.files import TlsFiles

LOOK_SECONDS: Final = 2.0
"""By times and inodes, since Kubernetes swaps symbolic links; certificates are replaced days before they end."""


class Reloaded:
    """One use of TLS, by its files. `load` makes of them what is used, or raises SettingsError, as this does at first.

    `reloads` and `failures` count what came after the start; `failure` says why the files as they are now are not used.
    """

    def __init__(self, use: str, files: TlsFiles, load: Callable[[TlsFiles], Loaded], *, log: Any) -> None:
        self.use, self._files, self._load, self._log = use, files, load, log
        self._used = self._seen = files.signature()
        self.loaded = load(files)
        self.reloads = self.failures = 0
        self.failure: str | None = None
        self._failed: object = None

    def __repr__(self) -> str:
        return f"<Reloaded {self.use}: {self._files}>"

    def look(self) -> None:
        """Whether the files have changed; if so, and if they are good, they are used from here on."""
        found = self._files.signature()
        has_held_still, self._seen = found == self._seen, found
        if found == self._used:
            self._failed = self.failure = None
        elif has_held_still and found != self._failed:
            self._take_up(found)

    def warn_of_open_key(self) -> None:
        """Tells where more than its owner may read the key."""
        pair = self._files.pair
        if pair is not None and (mode := pair.key.open_to_others()):
            self._log.warning("tls.key.open.to.others", use=self.use, file=str(pair.key), mode=mode)

    def _take_up(self, found: object) -> None:
        try:
            loaded = self._load(self._files)
            if self._files.signature() != found:
                return  # Another round, then: half of what was read may be of the next change.
        except SettingsError as error:
            self._failed, self.failure = found, str(error)
            self.failures += 1
            self._log.error("tls.not.reloaded", use=self.use, reason=str(error), until="the files change again")
            return
        self.loaded, self._used, self._failed, self.failure = loaded, found, None, None
        self.reloads += 1
        self.warn_of_open_key()
        self._log.info("tls.reloaded", use=self.use, files=str(self._files), expires=_text(loaded))


async def keep_looking(all_of_them: Sequence[Reloaded]) -> NoReturn:
    """Looks at each every LOOK_SECONDS, until cancelled."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        for reloaded in all_of_them:
            reloaded.look()


def _text(loaded: Loaded) -> str:
    return loaded.expires.isoformat() if loaded.expires else "never"

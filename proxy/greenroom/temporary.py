"""Temporary folders that do not pile up: what a killed process left is removed by the next one.

Each folder holds a file that its owner keeps locked. The kernel ends the lock with the process, however it ends.
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Self

LOCK_NAME = "owner"


class TemporaryFolder:
    """A folder of this process's own; `remove` ends it."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def make(cls, prefix: str) -> Self:
        """A new one, after removing those of the same prefix whose owners are gone."""
        remove_abandoned(prefix)
        path = Path(tempfile.mkdtemp(prefix=prefix))
        # It gets its name only once it is locked: nobody can find it unlocked meanwhile.
        unnamed = path / f"{LOCK_NAME}.new"
        lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        unnamed.rename(path / LOCK_NAME)
        return cls(path, lock)

    def remove(self) -> None:
        """The folder and what is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_abandoned(prefix: str) -> None:
    """Removes the folders of this user whose owners are gone; anything else stays."""
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        try:
            lock = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except OSError:
            continue
        finally:
            os.close(lock)

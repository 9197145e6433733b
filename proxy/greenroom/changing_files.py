"""Files that change while they are in use, and when to read them again.

The rule: nobody writes a file in one moment, nor two of them. So a change is read a look after it was first seen, if
nothing has changed since, nor does while it is read. What was read is read no more until the files change again,
whatever came of it.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

Status = tuple[int, int, int, int, int]
"""Of the file that a link leads to, since Kubernetes swaps links: device, inode, size, and the times of its last edit
and of its last change. Copies and editors set the former back; nobody can set the latter.
"""
Read = TypeVar("Read")


class ChangingFiles(Generic[Read]):
    """Looks at `paths`. `read` makes of them, as they are, what their user takes up: what is wrong with them too."""

    def __init__(self, paths: Sequence[Path], read: Callable[[], Read]) -> None:
        self._paths, self._read = paths, read
        self._seen = self._read_at = self._statuses()

    def look(self) -> Read | None:
        """What the files say, if they say something else and have held still since the look before; else None."""
        found = self._statuses()
        has_held_still, self._seen = found == self._seen, found
        if found == self._read_at or not has_held_still:
            return None
        read = self._read()
        if self._statuses() != found:
            return None  # Half of what was read may be of the next change.
        self._read_at = found
        return read

    def read_now(self) -> Read:
        """What the files say at this moment, for whoever knows that they are whole."""
        self._seen = self._read_at = self._statuses()
        return self._read()

    def _statuses(self) -> tuple[Status | None, ...]:
        return tuple(map(_status, self._paths))


def _status(path: Path) -> Status | None:
    """None where there is no such file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

"""Files are read again once they have changed and held still."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from greenroom.changing_files import ChangingFiles


class Files:
    """Two files, and how often they were read."""

    def __init__(self, folder: Path) -> None:
        self.one, self.two = folder / "one", folder / "two"
        write(self.one, "1")
        write(self.two, "2")
        self.reads = 0
        self.while_read: Callable[[], object] = lambda: None
        self.changing = ChangingFiles([self.one, self.two], self._read)

    def _read(self) -> str:
        self.reads += 1
        said = "".join(path.read_text() for path in (self.one, self.two) if path.exists())
        self.while_read()
        return said

    def looks(self, count: int = 1) -> list[str | None]:
        return [self.changing.look() for _ in range(count)]


def write(path: Path, text: str) -> None:
    """So that the change shows: a file system's clock can stand still for some milliseconds."""
    before = path.stat().st_ctime_ns if path.exists() else 0
    path.write_text(text)
    while path.stat().st_ctime_ns == before:
        path.write_text(text)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_what_never_changed_is_not_read(files: Files) -> None:
    assert (files.looks(3), files.reads) == ([None] * 3, 0)


def test_a_change_is_read_once_when_it_has_held_still(files: Files) -> None:
    write(files.one, "new")
    assert files.looks(4) == [None, "new2", None, None]
    assert files.reads == 1


def test_half_a_file_is_not_read(files: Files) -> None:
    """Whoever looks between two writes of one edit sees a file that nobody meant."""
    with files.one.open("w") as writing:
        writing.write("ha")
        writing.flush()
        assert files.looks() == [None]
        writing.write("lf")
    assert files.looks(2) == [None, "half2"]


def test_files_that_change_one_after_the_other_are_read_together(files: Files) -> None:
    write(files.one, "new")
    assert files.looks() == [None]
    write(files.two, "too")
    assert files.looks(3) == [None, "newtoo", None]


def test_a_change_while_they_are_read_is_waited_for(files: Files) -> None:
    write(files.one, "new")
    files.while_read = lambda: write(files.two, "too")
    assert files.looks(2) == [None, None]
    files.while_read = lambda: None
    assert files.looks(3) == [None, "newtoo", None]


def test_an_edit_that_shows_neither_in_size_nor_in_its_time_is_seen(files: Files) -> None:
    before = files.one.stat()
    write(files.one, "x")
    os.utime(files.one, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert files.looks(2) == [None, "x2"]


def test_a_link_that_is_swapped_further_up_is_seen(tmp_path: Path) -> None:
    """As Kubernetes does it: the file's own name is a link that never changes, into a folder that is swapped."""
    for version in ("before", "after"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "file").write_text(version)
    link, path = tmp_path / "..data", tmp_path / "file"
    link.symlink_to("before")
    path.symlink_to("..data/file")
    changing = ChangingFiles([path], path.read_text)
    (tmp_path / "new").symlink_to("after")
    (tmp_path / "new").replace(link)
    assert [changing.look() for _ in range(3)] == [None, "after", None]


def test_files_that_are_gone_are_a_change_too(files: Files) -> None:
    files.one.unlink()
    assert files.looks(3) == [None, "2", None]


def test_whoever_knows_that_they_are_whole_need_not_wait(files: Files) -> None:
    write(files.one, "new")
    assert files.changing.read_now() == "new2"
    assert files.looks(2) == [None, None]

"""Temporary folders that do not pile up."""

import os
import tempfile
from pathlib import Path

import pytest

from greenroom.temporary import TemporaryFolder, remove_abandoned


@pytest.fixture(autouse=True)
def _own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_a_folder_is_removed_with_what_is_in_it(tmp_path: Path) -> None:
    folder = TemporaryFolder.make("a-")
    (folder.path / "data").mkdir()
    folder.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_use_stays() -> None:
    """Another proxy on the same machine has its embedded etcd in it."""
    folder = TemporaryFolder.make("a-")
    other = TemporaryFolder.make("a-")
    assert folder.path.is_dir()
    folder.remove()
    other.remove()


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    """All that ends of its folder is the lock, which the kernel lets go of."""
    os.close(TemporaryFolder.make("a-")._lock)
    assert len(list(tmp_path.iterdir())) == 1
    remove_abandoned("a-")
    assert list(tmp_path.iterdir()) == []


def test_folders_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / "a-without-owner-file").mkdir()
    (tmp_path / "b").mkdir()
    remove_abandoned("a-")
    assert len(list(tmp_path.iterdir())) == 2

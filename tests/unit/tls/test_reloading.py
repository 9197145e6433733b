"""Files that change: taken up as a whole, or not at all."""

import asyncio
from pathlib import Path

import pytest

from greenroom.errors import SettingsError
from greenroom.tls import reloading
from greenroom.tls.contexts import load_client
from greenroom.tls.reloading import Reloaded, keep_looking
from tests.support.certificates import Authority, Issued
from tests.support.control_side import EventLog


class Rotated:
    """A pair of files that are written anew, and what looks at them."""

    def __init__(self, folder: Path) -> None:
        self.authority, self.log = Authority(folder), EventLog()
        self.issued = self.issue()
        self.reloaded = Reloaded("upstream", self.issued.files, load_client, log=self.log)

    def issue(self, *, ends_in_seconds: float = 3600.0) -> Issued:
        return self.authority.issue(ends_in_seconds=ends_in_seconds)

    def used(self) -> bytes | None:
        return self.reloaded.loaded.pem.certificates

    def look(self) -> bytes | None:
        self.reloaded.look()
        return self.used()


@pytest.fixture
def rotated(tmp_path: Path) -> Rotated:
    return Rotated(tmp_path)


def test_what_is_wrong_at_the_start_is_an_error(rotated: Rotated) -> None:
    rotated.issued.key.unlink()
    with pytest.raises(SettingsError, match="cannot be read"):
        Reloaded("listen", rotated.issued.files, load_client, log=EventLog())


def test_a_change_is_taken_up_once_it_has_held_still(rotated: Rotated) -> None:
    before = rotated.look()
    rotated.issue()
    assert rotated.look() == before
    assert rotated.look() == rotated.issued.cert.read_bytes() != before
    assert (rotated.reloaded.reloads, rotated.reloaded.failures) == (1, 0)
    assert [entry["use"] for entry in rotated.log.named("tls.reloaded")] == ["upstream"]
    rotated.look()
    assert rotated.reloaded.reloads == 1


def test_a_certificate_whose_key_is_still_to_be_written_is_waited_for(rotated: Rotated) -> None:
    """Whoever writes two files writes one of them first: no error is told while both keep changing."""
    before, key = rotated.used(), rotated.issued.key.read_bytes()
    rotated.issue()
    new_key = rotated.issued.key.read_bytes()
    rotated.issued.key.write_bytes(key)
    assert rotated.look() == before
    rotated.issued.key.write_bytes(new_key)
    assert rotated.look() == before
    assert rotated.look() == rotated.issued.cert.read_bytes()
    assert rotated.reloaded.failures == 0


def test_bad_files_are_told_once_and_the_old_ones_stay(rotated: Rotated) -> None:
    before = rotated.used()
    rotated.issue(ends_in_seconds=-1)
    for _ in range(4):
        assert rotated.look() == before
    assert (rotated.reloaded.reloads, rotated.reloaded.failures) == (0, 1)
    assert "certificate has expired" in str(rotated.reloaded.failure)
    assert len(rotated.log.named("tls.not.reloaded")) == 1
    rotated.issue()
    rotated.look()
    assert rotated.look() == rotated.issued.cert.read_bytes()
    assert rotated.reloaded.failure is None


def test_files_that_are_gone_change_nothing(rotated: Rotated) -> None:
    before = rotated.used()
    rotated.issued.cert.unlink()
    rotated.look()
    assert rotated.look() == before
    assert "No such file" in str(rotated.reloaded.failure)


def test_a_change_amid_the_reading_is_read_again(rotated: Rotated, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rotated.used()
    rotated.issue()
    rotated.look()
    load = rotated.reloaded._load

    def interrupted(files: object) -> object:
        loaded = load(rotated.issued.files)
        rotated.issue()
        return loaded

    monkeypatch.setattr(rotated.reloaded, "_load", interrupted)
    assert rotated.look() == before
    monkeypatch.undo()
    rotated.look()
    assert rotated.look() == rotated.issued.cert.read_bytes()
    assert rotated.reloaded.reloads == 1


def test_a_key_that_others_may_read_is_warned_of(rotated: Rotated) -> None:
    rotated.reloaded.warn_of_open_key()
    assert rotated.log.named("tls.key.open.to.others") == []
    rotated.issued.key.chmod(0o644)
    rotated.reloaded.warn_of_open_key()
    (entry,) = rotated.log.named("tls.key.open.to.others")
    assert (entry["mode"], entry["file"]) == ("0644", f"--tls-key '{rotated.issued.key}'")


async def test_they_are_looked_at_again_and_again(rotated: Rotated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reloading, "LOOK_SECONDS", 0.0)
    rotated.issue()
    looking = asyncio.create_task(keep_looking([rotated.reloaded]))
    await rotated.log.wait_named("tls.reloaded")
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking

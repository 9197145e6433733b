"""The access file in force follows the file, and nothing that is wrong."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from greenroom.access import reloading
from greenroom.access.known import Presented
from greenroom.access.reloading import AccessInForce
from greenroom.errors import Unauthenticated
from greenroom.yaml_files import YamlFileError
from tests.support.callers import access_text, bearer
from tests.support.control_side import EventLog

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "access.yaml"
    path.write_text(access_text())
    return path


def write(path: Path, text: str) -> None:
    path.write_text(text)


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def swap(link: Path, target: Path) -> None:
    """Atomically."""
    new = link.with_name("new.yaml")
    new.symlink_to(target)
    new.replace(link)


def remove(path: Path) -> None:
    path.unlink()


async def looked_at(access: AccessInForce) -> None:
    """As often as it takes until a change is read."""
    for _ in range(2):
        await access.look()


def is_known(access: AccessInForce, name: str) -> bool:
    try:
        return access.known.caller(Presented(bearer(name)), NOW).name == name
    except Unauthenticated:
        return False


async def test_a_token_is_revoked_by_taking_it_out(path: Path) -> None:
    access = AccessInForce(path, log=EventLog())
    assert is_known(access, "ci")
    write(path, access_text("ci"))
    await looked_at(access)
    assert not is_known(access, "ci")
    assert is_known(access, "ann")


async def test_half_a_file_revokes_nobody(path: Path) -> None:
    """It is YAML too, and knows those who stand in it already."""
    log, whole = EventLog(), access_text()
    half = whole.index("- name: ci")
    access = AccessInForce(path, log=log)
    write(path, whole[:half])
    await access.look()
    assert is_known(access, "ci")
    append(path, whole[half:] + "# As before.\n")
    await looked_at(access)
    assert is_known(access, "ci")
    assert [one["callers"] for one in log.named("access.reloaded")] == [access.known.number]


async def test_a_link_that_is_swapped_is_seen(path: Path, tmp_path: Path) -> None:
    """Kubernetes changes a mounted file by moving a link of folders."""
    link, other = tmp_path / "link.yaml", tmp_path / "other.yaml"
    swap(link, path)
    access = AccessInForce(link, log=EventLog())
    write(other, access_text("ci"))
    swap(link, other)
    await looked_at(access)
    assert not is_known(access, "ci")


async def test_a_wrong_file_changes_nothing_and_is_told_once(path: Path) -> None:
    log = EventLog()
    access = AccessInForce(path, log=log)
    write(path, "callers:\n- name: ci\n")
    for _ in range(4):
        await access.look()
    assert is_known(access, "ci")
    assert (access.is_newest, access.failures) == (False, 1)
    [told] = log.named("access.not.reloaded")
    assert told["level"] == "error"
    assert told["why"].startswith("line 2: callers[0].role: is missing")
    write(path, access_text("ci"))
    await looked_at(access)
    assert (access.is_newest, is_known(access, "ci")) == (True, False)
    assert log.named("access.reloaded")[0]["callers"] == 4


async def test_a_file_that_is_gone_changes_nothing_and_may_come_back(path: Path) -> None:
    log = EventLog()
    access = AccessInForce(path, log=log)
    remove(path)
    for _ in range(4):
        await access.look()
    assert (is_known(access, "ci"), access.is_newest, access.failures) == (True, False, 1)
    [told] = log.named("access.not.reloaded")
    assert "cannot be read: No such file" in told["why"]
    write(path, access_text())
    await looked_at(access)
    assert access.is_newest


def test_a_start_needs_a_file_that_is_right(path: Path) -> None:
    path.write_text("callers: 7\n")
    with pytest.raises(YamlFileError, match="callers: 7 is no list"):
        AccessInForce(path, log=EventLog())


async def test_it_goes_on_looking(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reloading, "LOOK_SECONDS", 0)
    log = EventLog()
    access = AccessInForce(path, log=log)
    running = asyncio.create_task(access.run())
    await log.wait_named("access.loaded")
    write(path, access_text("ci"))
    await log.wait_named("access.reloaded")
    running.cancel()
    assert not is_known(access, "ci")

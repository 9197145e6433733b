"""Guarded commands in an event loop: what they say, how they end, and what is left of them: nothing."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from greenroom.core.record import MAX_REASON_BYTES
from greenroom.gates import guarded as guarded_module
from greenroom.gates.guarded import Ended, Run, guarded
from tests.support.descendants import DAEMON, gone, runs, wait_pid
from tests.support.greenroom import environment
from tests.support.waiting import wait_for

ENVIRONMENT = {"PATH": os.environ["PATH"]}


async def ended(*command: str, **environment: str) -> Ended:
    async with guarded(command, ENVIRONMENT | environment) as run, asyncio.timeout(20):
        return await run.ended()


async def test_the_code_and_the_end_of_standard_error_are_told() -> None:
    assert await ended("sh", "-c", "echo looked >&2; echo 'bad answer' >&2; exit 3") == Ended(3, "looked\nbad answer")


async def test_the_environment_is_what_was_given_and_nothing_else() -> None:
    told = await ended("sh", "-c", 'echo "$GREENROOM_GATE ${HOME-none}" >&2', GREENROOM_GATE="smoke")
    assert told == Ended(0, "smoke none")


async def test_of_a_long_story_the_end_is_kept() -> None:
    """What nobody reads would make the command wait; what is read is not kept."""
    script = "import os\nfor _ in range(3000): os.write(2, b'noise' * 1000)\nos.write(2, b'the reason \\xff')"
    told = await ended(sys.executable, "-c", script)
    assert told.code == 0
    assert told.stderr.endswith("noisethe reason \ufffd")
    assert MAX_REASON_BYTES - 5 < len(told.stderr.encode()) <= MAX_REASON_BYTES


async def test_a_command_that_is_not_there_is_told_apart_from_one_that_says_the_same() -> None:
    words = "cannot run 'no-such-program': there is no such program on PATH"
    assert await ended("no-such-program") == Ended(127, words, words)
    assert await ended("sh", "-c", "exit 127") == Ended(127, "")


async def test_a_deadline_ends_everything(tmp_path: Path) -> None:
    async def check() -> None:
        async with guarded([sys.executable, "-c", DAEMON, str(tmp_path), "stay"], ENVIRONMENT) as run:
            await asyncio.to_thread(wait_pid, tmp_path / "daemon")
            async with asyncio.timeout(0):
                await run.ended()

    with pytest.raises(TimeoutError):
        await check()
    assert gone(wait_pid(tmp_path / "daemon"))
    assert gone(wait_pid(tmp_path / "command"))


async def test_a_cancellation_ends_everything_before_it_is_obeyed(tmp_path: Path) -> None:
    async def check() -> None:
        async with guarded([sys.executable, "-c", DAEMON, str(tmp_path), "stay"], ENVIRONMENT) as run:
            await run.ended()

    task = asyncio.ensure_future(check())
    daemon = await asyncio.to_thread(wait_pid, tmp_path / "daemon")
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()  # Whoever is in a hurry asks twice, and gets no other answer.
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not runs(daemon)


async def test_a_cancellation_amid_the_start_leaves_nothing(tmp_path: Path) -> None:
    for turns in range(12):

        async def check() -> None:
            async with guarded(["sh", "-c", f"echo $$ >> {tmp_path}/pids; sleep 600"], ENVIRONMENT) as run:
                await run.ended()

        task = asyncio.ensure_future(check())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    started = (tmp_path / "pids").read_text().split() if (tmp_path / "pids").exists() else []
    assert all(gone(int(pid)) for pid in started)


async def test_standard_output_goes_where_it_is_told_to_or_nowhere(tmp_path: Path) -> None:
    with (tmp_path / "output").open("wb") as output:
        async with guarded(["echo", "hello"], ENVIRONMENT, stdout=output.fileno()) as run:
            assert await run.ended() == Ended(0, "")
    assert (tmp_path / "output").read_text() == "hello\n"
    assert (await ended("echo", "hello")).code == 0


async def test_standard_output_that_nobody_reads_any_more_costs_nothing() -> None:
    """A runner's log collector that has ended must not be held against the workers that it checks."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        async with guarded(["sh", "-c", "echo fine"], os.environ, stdout=writing) as run:
            assert await run.ended() == Ended(0, "")
    finally:
        os.close(writing)


async def test_it_runs_in_the_folder_that_is_asked_for(tmp_path: Path) -> None:
    async with guarded(["sh", "-c", "pwd >&2"], ENVIRONMENT, folder=tmp_path) as run:
        assert (await run.ended()).stderr == str(tmp_path)


def test_nothing_is_left_where_its_program_is_killed(tmp_path: Path) -> None:
    """SIGKILL: nobody can run anything any more, but for the guard."""
    command = [sys.executable, "-c", DAEMON, str(tmp_path), "stay"]
    program = (
        "import asyncio, os\nfrom greenroom.gates.guarded import guarded\n"
        f"async def main():\n    async with guarded({command!r}, dict(os.environ)) as run:\n        await run.ended()\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], env=environment()) as starter:
        daemon = wait_pid(tmp_path / "daemon")
        starter.send_signal(signal.SIGKILL)
    assert gone(daemon)
    assert gone(wait_pid(tmp_path / "command"))


@pytest.mark.parametrize("number", ["KILL", "STOP"])
async def test_nothing_is_left_where_the_guard_itself_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    """The kernel may take it for want of memory, and a check may do as it likes to what is its own user's.

    What is left has standard error still, so its end cannot be waited for before it is ended.
    """
    monkeypatch.setattr(guarded_module, "END_SECONDS", 0.1)
    daemon = f"setsid sh -c 'echo $$ > {tmp_path}/daemon; sleep 600' & while [ ! -s {tmp_path}/daemon ]; do :; done"
    async with guarded(["sh", "-c", f"{daemon}; kill -{number} $PPID; sleep 600"], ENVIRONMENT) as run:
        pid = await asyncio.to_thread(wait_pid, tmp_path / "daemon")
        if number == "KILL":
            async with asyncio.timeout(20):
                assert (await run.ended()).code == 128 + signal.SIGKILL
        else:
            await asyncio.to_thread(wait_for, lambda: state_of(guard_of(run)) == "T", 10, "the guard is stopped")
    assert not runs(pid)


async def test_a_guard_that_was_stopped_goes_on_to_end_everything(tmp_path: Path) -> None:
    """What has taken its environment away is the guard's to find, and nobody else's."""
    daemon = (
        f"env -i setsid sh -c 'echo $$ > {tmp_path}/daemon; sleep 600' & while [ ! -s {tmp_path}/daemon ]; do :; done"
    )
    async with guarded(["sh", "-c", f"{daemon}; kill -STOP $PPID; exec sleep 600"], ENVIRONMENT) as run:
        pid = await asyncio.to_thread(wait_pid, tmp_path / "daemon")
        await asyncio.to_thread(wait_for, lambda: state_of(guard_of(run)) == "T", 10, "the guard is stopped")
    assert not runs(pid)


def guard_of(run: Run) -> int:
    return run._process.pid


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]

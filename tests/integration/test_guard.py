"""The guard, as a process of its own: whatever a command starts is gone when the guard is, whoever was killed."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from greenroom.gates import guard
from tests.support.descendants import DAEMON, GENERATIONS, SLEEPING_SHELL, gone, wait_pid

SECONDS = 20


@contextmanager
def started(
    *command: str, program: Sequence[str] = (guard.__file__,)
) -> Iterator[tuple[subprocess.Popen[bytes], socket.socket]]:
    """A guard with its command, and the starter's end of its socket."""
    ours, guards = socket.socketpair()
    with guards:
        process = subprocess.Popen(
            [sys.executable, "-IS", *program, str(guards.fileno()), *command],
            pass_fds=(guards.fileno(),),
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    with ours, process:
        try:
            yield process, ours
        finally:
            ours.close()
            process.wait(SECONDS)


def code_of(*command: str) -> int:
    with started(*command) as (process, _):
        return process.wait(SECONDS)


@pytest.mark.parametrize(
    ("command", "code"), [("exit 0", 0), ("exit 75", 75), ("exit 3", 3), ("kill -TERM $$", 128 + signal.SIGTERM)]
)
def test_it_ends_with_the_code_of_its_command(command: str, code: int) -> None:
    assert code_of("sh", "-c", command) == code


@pytest.mark.parametrize(
    ("program", "content", "code", "words"),
    [
        ("no-such-program", None, 127, "cannot run 'no-such-program': there is no such program on PATH"),
        ("{folder}/nothing", None, 127, "cannot run '{folder}/nothing': No such file or directory"),
        ("{folder}/text", "words", 126, "cannot run '{folder}/text': it is no program, nor a script that begins"),
        ("{folder}", None, 126, "cannot run '{folder}': Permission denied"),
    ],
)
def test_a_command_that_cannot_be_started_is_told_of_in_words(
    tmp_path: Path, program: str, content: str | None, code: int, words: str
) -> None:
    if content is not None:
        (tmp_path / "text").write_text(content)
        (tmp_path / "text").chmod(0o755)
    with started(program.format(folder=tmp_path)) as (process, ours):
        assert process.wait(SECONDS) == code
        told = ours.recv(4096).decode()
        assert process.stderr is not None
        assert process.stderr.read().decode() == f"{told}\n"
    assert told.startswith(words.format(folder=tmp_path))


@pytest.mark.parametrize("ending", ["close", "SIGTERM", "SIGINT", "SIGHUP"])
def test_a_daemon_in_a_session_of_its_own_ends_with_its_starter(tmp_path: Path, ending: str) -> None:
    """A check forks twice, leaves its session and ignores SIGTERM, as a server that it starts may."""
    with started(sys.executable, "-c", DAEMON, str(tmp_path), "stay") as (process, ours):
        daemon = wait_pid(tmp_path / "daemon")
        ours.close() if ending == "close" else process.send_signal(signal.Signals[ending])
        assert process.wait(SECONDS) == 128 + signal.SIGKILL
    assert gone(daemon)
    assert gone(wait_pid(tmp_path / "command"))


def test_what_a_command_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    with started(sys.executable, "-c", DAEMON, str(tmp_path), "leave") as (process, _):
        daemon = wait_pid(tmp_path / "daemon")
        assert process.wait(SECONDS) == 4
    assert gone(daemon)


def test_many_generations_end(tmp_path: Path) -> None:
    """Each is in a session of its own and waits for the next, the last for ever."""
    with started(sys.executable, "-c", GENERATIONS, str(tmp_path), "8") as (process, ours):
        pids = [wait_pid(tmp_path / f"{generation}") for generation in range(9)]
        ours.close()
        process.wait(SECONDS)
    assert all(gone(pid) for pid in pids)


def test_what_forks_all_the_time_ends() -> None:
    """In a session of its own each process starts the next and ends: the kernel ends the whole group in one step."""
    script = (
        "import os\nif os.fork():\n    os.wait()\nos.setsid()\nwhile True:\n    if os.fork():\n        os._exit(0)\n"
    )
    with started(sys.executable, "-c", script) as (process, ours):
        ours.close()
        assert process.wait(SECONDS) != 0


def test_the_command_ends_where_its_guard_is_killed(tmp_path: Path) -> None:
    with started("sh", "-c", SLEEPING_SHELL.format(pid_file=tmp_path / "shell")) as (process, _):
        command = wait_pid(tmp_path / "shell")
        process.kill()
        process.wait(SECONDS)
        assert gone(command)


def test_the_command_has_pythons_signals_no_more_and_none_of_the_guards_files() -> None:
    script = (
        "import os, sys\n"
        "files = [f for f in os.listdir('/proc/self/fd') if int(f) > 2 and os.path.exists(f'/proc/self/fd/{f}')]\n"
        "sys.exit(0 if not files and os.getsid(0) == os.getpid() else 1)\n"
    )
    assert code_of(sys.executable, "-IS", "-c", script) == 0
    # 32 and 33, which are the C library's own, may be ignored since some program before: nobody can change that.
    assert code_of("grep", "-q", "SigIgn:.0000000[01]80000000\\|SigIgn:.0000000000000000", "/proc/self/status") == 0


def test_it_needs_nothing_but_itself() -> None:
    """It is started for each check: what it loads is a price that each pays."""
    program = f"import runpy, sys; runpy.run_path({guard.__file__!r}); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-IS", "-c", program], capture_output=True, text=True, check=True).stdout
    assert not {"asyncio", "socket", "subprocess", "logging", "grpc", "greenroom"} & set(loaded.split())


def test_what_it_cannot_end_is_told_of() -> None:
    """A process that hangs in the kernel, say, and its graphics card with it: whoever comes next should know."""
    hurried = f"import runpy, sys; it = runpy.run_path({guard.__file__!r}); main = it['main']; "
    hurried += "main.__globals__['GIVE_UP_SECONDS'] = 0; sys.exit(main(sys.argv[1:]))"
    with started("sh", "-c", "sleep 600 2>/dev/null & echo $! >&2; exit 3", program=("-c", hurried)) as (process, _):
        assert process.wait(SECONDS) == 3
        assert process.stderr is not None
        left, told = process.stderr.readline(), process.stderr.readline()
    os.kill(int(left), signal.SIGKILL)
    assert told == b"processes that SIGKILL did not end within 0 s, and that are left: " + left

"""The guard: a small process that starts one command, and ends it with everything that the command ever started.

A check may fork, leave its process group or its session, ignore SIGTERM; and whoever started it may be killed at any
moment. So each command has a guard of its own. It is the subreaper of all that comes from the command: a process whose
parent ends becomes the guard's child, whatever group and session it is in. Therefore once the guard has no child left,
nothing is left. It hangs on its starter by a socket, whose end says that the starter has gone.

    python -IS guard.py DESCRIPTOR COMMAND [ARGUMENT…]

The rule: standard library only, and little of it: it must be there within some tens of milliseconds. It exits with the
command's code, or with 128 and the number of the signal that ended it. A command that cannot be started is told of in
words on the socket and on standard error, and the code is that of shells: 127 not found, 126 cannot be run. What does
not end is told of on standard output, where the starter's log is, and on standard error, whose end is the reason.

The starter closes its end of the socket to have everything killed, and so does its death. SIGTERM, SIGINT, SIGHUP and
SIGQUIT do the same.
"""

import ctypes
import errno
import os
import select
import signal
import sys
import time

NOT_FOUND, NOT_RUNNABLE = 127, 126
KILLED_BY = 128
"""And the number of the signal, as shells have it."""
GIVE_UP_SECONDS = 10.0
"""What does not end by SIGKILL for so long is not this user's, or hangs in the kernel: nobody can wait for that."""
STAT_BYTES = 4096
LOOK_SECONDS = 0.05
"""Between two rounds of killing, where no child's end says that it is time."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_ALL_SIGNALS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
"""What is ignored stays so in a new program: Python ignores two, and who knows what whoever started the runner did."""


class CannotStart(Exception):
    """The command could not be started: words, and the code."""

    def __init__(self, words: str, code: int) -> None:
        super().__init__(words)
        self.code = code


def main(arguments: list[str]) -> int:
    """Runs the command to its end, or to that of the starter; the exit code."""
    starter = int(arguments[0])
    os.set_inheritable(starter, False)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        return _complained(starter, CannotStart("this kernel has no subreapers: Linux 3.4 or newer is needed", 126))
    signals = _woken_by_signals()
    try:
        command = _started(arguments[1:], libc)
    except CannotStart as error:
        return _complained(starter, error)
    code = _watched(command, starter, signals)
    return _swept(command, signals, code)


def _watched(command: int, starter: int, signals: int) -> int | None:
    """Returns when the command has ended, with its code, or None when it is to be ended."""
    poll = select.poll()
    poll.register(starter, select.POLLIN)
    poll.register(signals, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == starter:  # It says nothing there: it has gone.
                return None
            if set(os.read(signals, 4096)) & set(_STOPS):
                return None
        if (code := _reaped(command)) is not None:
            return code


def _swept(command: int, signals: int, code: int | None) -> int:
    """Kills all that is left, round by round, since the children of the killed become ours; the command's code."""
    poll = select.poll()
    poll.register(signals, select.POLLIN)
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while time.monotonic() < deadline:
        if code is None:
            _kill_group(command)  # It is not reaped, so its id is its own; this needs no /proc.
        for child, group in _children():
            _kill(child, group)
        ended = _reaped(command)
        code = ended if code is None else code
        if not _has_children():
            break
        if poll.poll(LOOK_SECONDS * 1000):
            os.read(signals, 4096)
    else:
        left = ", ".join(str(child) for child, _ in _children())
        _say(f"processes that SIGKILL did not end within {GIVE_UP_SECONDS:g} s, and that are left: {left}\n", 1, 2)
    return KILLED_BY + signal.SIGKILL if code is None else code


def _reaped(command: int) -> int | None:
    """Takes note of all children that have ended; the command's code where it is one of them."""
    code = None
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if not ended:
            return code
        if ended == command:
            found = os.waitstatus_to_exitcode(status)
            code = found if found >= 0 else KILLED_BY - found


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _children() -> list[tuple[int, int]]:
    """Our own children with their groups. Their ids stay theirs until we have reaped them, so the right one is hit."""
    me, found = os.getpid(), []
    for name in _processes():
        parent, group = _parent_and_group(name)
        if parent == me:
            found.append((int(name), group))
    return found


def _processes() -> list[str]:
    try:
        return [entry.name for entry in os.scandir("/proc") if entry.name.isdigit()]
    except OSError:
        return []


def _parent_and_group(process: str) -> tuple[int, int]:
    """Zeros where it has ended meanwhile."""
    try:
        file = os.open(f"/proc/{process}/stat", os.O_RDONLY)
    except OSError:
        return 0, 0
    try:
        stat = os.read(file, STAT_BYTES)
    except OSError:
        return 0, 0
    finally:
        os.close(file)
    # The name before may have anything in it, brackets and blanks too.
    _, parent, group, *_ = stat.rpartition(b")")[2].split()
    return int(parent), int(group)


def _kill(child: int, group: int) -> None:
    """A child and the group that it is in: where it forks all the time the kernel ends all of them in one step."""
    if group != os.getpgrp():
        _kill_group(group)
    try:
        os.kill(child, signal.SIGKILL)
    except OSError:
        return


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        return


def _started(command: list[str], libc: ctypes.CDLL) -> int:
    """The command's process, in a session of its own; CannotStart."""
    reading, writing = os.pipe()
    parent, child = os.getpid(), os.fork()
    if not child:
        try:
            _become(command, parent, libc)
        except OSError as error:
            os.write(writing, str(error.errno).encode())
        finally:
            os._exit(NOT_FOUND)
    os.close(writing)
    trouble = os.read(reading, STAT_BYTES)  # Nothing once the command has taken over: that closes the pipe.
    os.close(reading)
    if trouble:
        raise _in_words(command[0], int(trouble))
    return child


def _become(command: list[str], parent: int, libc: ctypes.CDLL) -> None:
    """Where the guard itself is killed, the kernel ends at least the command."""
    os.setsid()
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return
    signal.set_wakeup_fd(-1)
    for number in _ALL_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    os.execvp(command[0], command)


def _in_words(program: str, number: int) -> CannotStart:
    if number == errno.ENOENT and "/" not in program:
        return CannotStart(f"cannot run '{program}': there is no such program on PATH", NOT_FOUND)
    if number == errno.ENOEXEC:
        return CannotStart(f"cannot run '{program}': it is no program, nor a script that begins with #!", NOT_RUNNABLE)
    words = f"cannot run '{program}': {os.strerror(number)}"
    return CannotStart(words, NOT_FOUND if number == errno.ENOENT else NOT_RUNNABLE)


def _complained(starter: int, error: CannotStart) -> int:
    _say(str(error), starter)
    _say(f"{error}\n", 2)
    return error.code


def _say(words: str, *descriptors: int) -> None:
    for descriptor in descriptors:
        try:
            os.write(descriptor, words.encode("utf-8", "replace"))
        except OSError:
            continue  # Nobody listens there any more.


def _woken_by_signals() -> int:
    """A pipe that has the number of each signal that came, the children's ends among them."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (*_STOPS, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    return reading


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

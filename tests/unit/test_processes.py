"""Ports, and children that end with their parent."""

import resource
import signal
import socket
import subprocess
import sys

from greenroom.processes import PORTS, allow_many_open_files, can_bind, die_with_parent, free_port


def test_a_port_that_is_listened_on_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not can_bind("127.0.0.1", server.getsockname()[1])


def test_an_address_of_another_machine_cannot_be_had() -> None:
    assert not can_bind("192.0.2.1", 0)


def test_a_free_port_can_be_bound_and_is_no_ephemeral_one() -> None:
    port = free_port()
    assert port in PORTS
    assert can_bind("127.0.0.1", port)


def test_a_child_ends_with_its_parent() -> None:
    """A proxy killed with SIGKILL can run nothing any more; the kernel ends its child."""
    program = (
        "import os, signal, subprocess, sys\n"
        "from greenroom.processes import die_with_parent\n"
        "child = subprocess.Popen(['sleep', '60'], preexec_fn=die_with_parent(signal.SIGKILL))\n"
        "print(child.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    # The grandchild keeps the pipe open: its end of file says that it is gone.
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        output, _ = parent.communicate(timeout=20)
    assert int(output) > 0
    assert parent.returncode == -signal.SIGKILL


def test_it_is_linux_own() -> None:
    assert (die_with_parent(signal.SIGKILL) is not None) is (sys.platform == "linux")


def test_the_limit_of_open_files_is_raised_and_never_lowered() -> None:
    """A shell's 1,024 would be used up by some 500 workers."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
        allow_many_open_files()
        raised = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert raised[1] == before[1]
        assert raised[0] > 200
        allow_many_open_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == raised
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

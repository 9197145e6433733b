"""Ports that are kept for a child, and children that end with their parent."""

import random
import signal
import subprocess
import sys

import pytest

from greenroom.errors import StartError
from greenroom.processes import free_port, reserved_port


def test_a_port_that_is_reserved_is_given_to_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until its child listens there a port is as free as before."""
    one, other = free_port(), free_port()
    monkeypatch.setattr(random, "sample", lambda *_: [one, other])
    asking = "from greenroom import processes\n"
    asking += f"processes.random.sample = lambda *_: [{one}, {other}]\n"
    asking += "with processes.reserved_port() as port: print(port)"
    with reserved_port() as port:
        assert port == one
        assert int(subprocess.check_output([sys.executable, "-c", asking])) == other
        with reserved_port() as second, pytest.raises(StartError, match="no free port"), reserved_port():
            pass
        assert second == other
    with reserved_port() as again:
        assert again == one


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

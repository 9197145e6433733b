"""Children that end with their parent."""

import signal
import subprocess
import sys


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

"""`make rollout-demo`: a whole rollout with real Dynamo, told as it happens.

    python -m tests.e2e.rollout PYTHON      # of an environment with Dynamo, as scripts/setup_dynamo.py prints it

The exit code is 0 if everything was seen that should be, else 1. The rule: Ctrl-C is one line and 130 whenever it
comes, and leaves nothing. So whatever takes its time to be imported is imported within reach of that.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The last one is a terminal that is closed."""
INTERRUPTED = 130
"""As shells have it for SIGINT."""


def main() -> int:
    for number in INTERRUPTS:
        signal.signal(number, _interrupted)
    try:
        return _run()
    except KeyboardInterrupt:
        print("\nInterrupted; everything has been stopped")
        return INTERRUPTED


def _run() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.rollout", description=__doc__)
    parser.add_argument("python", type=Path, help="the Python of an environment with Dynamo")
    python = parser.parse_args().python
    if not os.access(python, os.X_OK):
        parser.error(f"{python} is no program; scripts/setup_dynamo.py makes one and prints where it is")
    from tests.e2e.rollout.telling import tell

    return tell(python)


def _interrupted(*_: object) -> None:
    """What was started runs in groups of its own and is ended by us: a second Ctrl-C must not get in the way."""
    for number in INTERRUPTS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

"""The program's entry, as `greenroom` and as `python -m greenroom`."""

import sys

INTERRUPTED = 130


def run() -> int:
    """The exit code. Loading takes half a second, in which Ctrl-C has to end it as it does later: with no traceback."""
    try:
        from greenroom.cli.main import main

        return main()
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(run())

"""`make rollout-demo`: a whole rollout with real Dynamo, told as it happens.

    python -m tests.e2e.rollout PYTHON      # of an environment with Dynamo, as scripts/setup_dynamo.py prints it

The exit code is 0 if everything was seen that should be, else 1.
"""

import argparse
import os
import signal
import sys
import tempfile
from pathlib import Path

from greenroom.cli.options import console
from greenroom.demo.timeline import Timeline
from tests.e2e.rollout import others, story
from tests.e2e.rollout.site import Site, open_site
from tests.e2e.support.dynamo import Dynamo, make_model
from tests.e2e.support.store import Store

INTERRUPTED = 130
"""As shells have it for SIGINT."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.rollout", description=__doc__)
    parser.add_argument("python", type=Path, help="the Python of an environment with Dynamo")
    python = parser.parse_args().python
    if not os.access(python, os.X_OK):
        parser.error(f"{python} is no program; scripts/setup_dynamo.py makes one and prints where it is")
    # What is started runs in groups of its own, and has to be ended by us whoever ends us.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    told = Timeline(console())
    with tempfile.TemporaryDirectory(prefix="greenroom-rollout-") as folder:
        try:
            _play_in(Path(folder), python, told)
        except KeyboardInterrupt:
            told.chapter("Interrupted; everything has been stopped")
            return INTERRUPTED
        except AssertionError as error:
            told.chapter(f"The rollout broke off: {error}")
            return 1
    return 0 if told.conclude() else 1


def _play_in(folder: Path, python: Path, told: Timeline) -> None:
    model, logs = folder / "tiny", folder / "logs"
    logs.mkdir()
    make_model(python, model)
    dynamo = Dynamo(python, model, logs)
    with Store() as store, open_site(dynamo, store, told) as site:
        play(site)


def play(site: Site) -> None:
    """All of it, once."""
    worker = story.failing_gate(site)
    story.retry(site, worker)
    story.withdrawal(site, worker)
    story.restart(site, worker)
    story.rollout_hold(site)
    others.adapter_and_address(site)
    others.pair(site)
    story.conclude(site)


if __name__ == "__main__":
    sys.exit(main())

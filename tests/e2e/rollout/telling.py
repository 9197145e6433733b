"""The rollout from its first chapter to its last, for who wants to watch: what it needs is made, and removed again.

The rule: whatever ends it, nothing of it is left, neither processes nor folders.
"""

import tempfile
from pathlib import Path

from greenroom.cli.options import console
from greenroom.demo.timeline import Timeline
from tests.e2e.rollout import others, story
from tests.e2e.rollout.site import Site, open_site
from tests.e2e.support.dynamo import Dynamo, make_model
from tests.e2e.support.store import Store


def tell(python: Path) -> int:
    """The exit code. `python` is that of an environment with Dynamo."""
    told = Timeline(console())
    with tempfile.TemporaryDirectory(prefix="greenroom-rollout-") as folder:
        try:
            _play_in(Path(folder), python, told)
        except AssertionError as error:
            told.chapter("\n".join((f"The rollout broke off: {error}", *getattr(error, "__notes__", ()))))
            return 1
    return 0 if told.conclude() else 1


def _play_in(folder: Path, python: Path, told: Timeline) -> None:
    model, logs = folder / "tiny", folder / "logs"
    logs.mkdir()
    make_model(python, model)
    dynamo = Dynamo(python, model, logs)
    with Store() as store, open_site(dynamo, store, told) as site:
        _play(site)


def _play(site: Site) -> None:
    worker = story.failing_gate(site)
    story.retry(site, worker)
    story.withdrawal(site, worker)
    story.restart(site, worker)
    story.rollout_hold(site)
    others.adapter_and_address(site)
    others.pair(site)
    story.conclude(site)

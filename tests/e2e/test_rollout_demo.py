"""`make rollout-demo` and Ctrl-C. The story itself is told by test_rollout.py; it is played once a run."""

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

from tests.support.greenroom import environment
from tests.support.process import Process
from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[2]
INTERRUPTED = 130
END_SECONDS = 30


class Demo(Process):
    """Ready when the stage is set, and everything runs."""

    def ready(self) -> None:
        self.wait_ready(lambda: "gate runner on" in self.log(), "has set the stage")


def test_ctrl_c_leaves_no_process_and_no_folder(dynamo_python: Path, tmp_path: Path) -> None:
    """As from a terminal: to all that is in the foreground, and again by somebody in a hurry."""
    command = [sys.executable, "-m", "tests.e2e.rollout", str(dynamo_python)]
    paths = {"PYTHONPATH": f"{ROOT}:{ROOT / 'proxy'}"}
    with Demo("demo", command, tmp_path, {**environment(), **paths}) as demo:
        started = {process: words_of(process) for process in descendants(demo.pid)}
        assert {"dynamo.mocker", "dynamo.frontend", "serve", "gates"} < set(chain(*started.values()))
        folders = set(folders_in(chain(*started.values())))
        assert len(folders) == 2
        for _ in range(2):
            os.killpg(demo.pid, signal.SIGINT)
        assert demo.child is not None
        assert demo.child.wait(END_SECONDS) == INTERRUPTED
        *_, last = demo.log().splitlines()
        assert last == "Interrupted; everything has been stopped"
        assert "Traceback" not in demo.log()
    wait_for(lambda: not [one for one, words in started.items() if words_of(one) == words], describe="all have ended")
    assert [folder for folder in folders if folder.exists()] == []


def descendants(process: int) -> Iterator[int]:
    for one in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        if parent_of(one) == process:
            yield one
            yield from descendants(one)


def parent_of(process: int) -> int:
    """0 for one that has gone."""
    with suppress(OSError):
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def words_of(process: int) -> list[str]:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_text().split("\0")[:-1]
    return []


def folders_in(words: Iterable[str]) -> Iterator[Path]:
    """The demonstration's own, its etcd's and the other: they are told to what it starts."""
    for path in (Path(word.rpartition("=")[2]) for word in words):
        yield from (folder for folder in (path, *path.parents) if folder.name.startswith("greenroom-"))

"""An observer of etcd that shares nothing with the product: etcd3-py, in its own process, on etcd's JSON port.

The rule: what the public can see is asked here, so that a mistake in our own protos or client cannot hide a leak.
"""

import json
import os
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.support.parts import missing

WAIT_SECONDS = 20
VERSION = "0.1.6"
SCRIPT = Path(__file__).parents[1] / "clients" / "inside_etcd3_py" / "observe.py"


@dataclass(frozen=True, slots=True)
class Seen:
    """One key as a range or an event showed it; `kind` is PUT or DELETE, and empty for a range."""

    key: bytes
    value: bytes
    lease: int
    create_revision: int
    mod_revision: int
    version: int
    kind: str = ""


class Observer:
    """Watches the whole keyspace from `start_revision` (0 is from now on); ready when the constructor returns."""

    def __init__(self, port: int, start_revision: int = 0) -> None:
        command = [str(find_etcd3_py()), str(SCRIPT), str(port), str(start_revision)]
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment(), text=True
        )
        self._changed = threading.Condition()
        self._events: list[Seen] = []
        self._ranges: list[list[Seen]] = []
        self._created = self._ended = False
        self._reader = threading.Thread(target=self._read, name="observer", daemon=True)
        self._reader.start()
        try:
            self._wait(lambda: self._created, WAIT_SECONDS, "the watch is created")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def events(self) -> list[Seen]:
        """All so far, in order."""
        return list(self._events)

    def wait_revision(self, revision: int, timeout_seconds: float = WAIT_SECONDS) -> list[Seen]:
        """All events once one of `revision` or later is there."""
        seen = self._events
        self._wait(lambda: bool(seen) and seen[-1].mod_revision >= revision, timeout_seconds, f"revision {revision}")
        return self.events

    def range(self, key: bytes, range_end: bytes = b"") -> list[Seen]:
        count = len(self._ranges)
        assert self._child.stdin is not None
        self._child.stdin.write(f"{key.hex()} {range_end.hex()}\n")
        self._child.stdin.flush()
        self._wait(lambda: len(self._ranges) > count, WAIT_SECONDS, f"an answer to the range of {key!r}")
        return self._ranges[count]

    def everything(self) -> list[Seen]:
        return self.range(b"\0", b"\0")

    def close(self) -> None:
        self._child.kill()
        self._child.wait()
        self._reader.join(WAIT_SECONDS)
        for stream in (self._child.stdin, self._child.stdout):
            if stream is not None:
                stream.close()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            with self._changed:
                self._take(json.loads(line))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _take(self, line: dict[str, Any]) -> None:
        if "created" in line:
            self._created = True
        elif "range" in line:
            self._ranges.append([_seen(entry) for entry in line["range"]])
        else:
            self._events.append(_seen(line, kind=line["event"]))

    def _wait(self, fact: Any, timeout_seconds: float, what: str) -> None:
        with self._changed:
            reached = self._changed.wait_for(lambda: fact() or self._ended, timeout_seconds) and fact()
        if not reached:
            raise AssertionError(f"the observer did not see: {what} (events so far: {self._events})")


def find_etcd3_py() -> Path:
    """Its Python; ends the test when that environment is not there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = Path(os.environ.get("GREENROOM_ETCD3_PY") or cache / "greenroom" / f"etcd3-py-{VERSION}")
    python = home / "bin" / "python"
    return python if python.exists() else missing("etcd3-py", f"no environment at {home}; `make test` makes it")


def _seen(entry: dict[str, Any], kind: str = "") -> Seen:
    return Seen(
        key=bytes.fromhex(entry["key"]),
        value=bytes.fromhex(entry["value"]),
        lease=int(entry["lease"]),
        create_revision=int(entry["create_revision"]),
        mod_revision=int(entry["mod_revision"]),
        version=int(entry["version"]),
        kind=kind,
    )


def _environment() -> dict[str, str]:
    """No proxy of the machine's may come between it and loopback, and none of our import paths into its process."""
    dropped = {"http_proxy", "https_proxy", "all_proxy", "pythonpath"}
    return {name: value for name, value in os.environ.items() if name.lower() not in dropped}

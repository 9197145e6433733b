"""Runs a plan on etcd's own command line, a process a step.

The rule: what it prints as JSON goes into the log as it is, and of what it complains the lines that are for its user.
"""

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.support.answers import Line
from tests.support.etcdctl import Etcdctl
from tests.support.plan import Step
from tests.support.plan_calls import Memory, is_put

RESULTS = {"EQUAL": "=", "NOT_EQUAL": "!=", "GREATER": ">", "LESS": "<"}
TARGETS = {"MOD": "MODIFY"}
LIKE_OTHERS = {"granted-ttl": "grantedTTL", "ttl": "TTL"}
"""What it names otherwise than the messages do."""


class EtcdctlRun:
    """One endpoint; `aside` does what it cannot."""

    def __init__(self, ctl: Etcdctl, aside: Callable[[Step], Line]) -> None:
        self.ctl, self.aside = ctl, aside
        self.memory = Memory()
        self.revision = 0
        self.watches: dict[str, subprocess.Popen[str]] = {}

    def run(self, steps: Sequence[Step]) -> list[Line]:
        with contextlib.ExitStack() as ends:
            ends.callback(self._end_all)
            return [self._step(step) for step in steps]

    def _end_all(self) -> None:
        for watch in self.watches.values():
            self._end(watch)

    def _step(self, step: Step) -> Line:
        match step["do"]:
            case "aside":
                return self._seen(step, self.aside(step))
            case "watch":
                return self._watch(step)
            case "events":
                return {"events": self._events(step)}
            case "unwatch":
                return {"ended": self._end(self.watches.pop(step["name"]))}
            case "lock":
                return {"said": self.ctl.lines("lock", step["name"], "echo", "locked")}
            case "unlock":
                return {"left": self.ctl.lines("get", step["name"], "--prefix")}
            case "txn":
                return self._seen(step, self._call("txn", stdin=self._script(step)))
        return self._seen(step, self._call(*self._arguments(step)))

    def _call(self, *arguments: str, stdin: str = "") -> Line:
        done = self.ctl.run("--write-out=json", *arguments, stdin=stdin, check=False)
        complaints = [line for line in done.stderr.splitlines() if line.startswith("Error")]
        printed = [_printed(line) for line in done.stdout.splitlines()]
        return {"answers": printed, "complaints": complaints, "status": done.returncode}

    def _seen(self, step: Step, line: Line) -> Line:
        for answer in (*line.get("answers", ()), line.get("answer", {})):
            if isinstance(answer, dict):
                self.revision = int(answer.get("header", {}).get("revision", 0)) or self.revision
            self.memory.take_shown(answer)
        if "keep" in step:
            self.memory.kept[step["keep"]] = self.revision
        return line

    def _arguments(self, step: Step) -> list[str]:
        flags = [flag for name, value in step.get("options", {}).items() for flag in self._flag(name, value)]
        match step["do"]:
            case "put":
                value = [] if step["options"].get("ignore_value") else [step["value"]]
                lease = [f"--lease={int(step['lease']):x}"] if step["lease"] != "0" else []
                return ["put", *flags, *lease, "--", step["key"], *value]
            case "range" | "delete":
                command = "get" if step["do"] == "range" else "del"
                return [command, *flags, "--", step["key"], *filter(None, [step["range_end"]])]
            case "compact":
                return ["compaction", str(self.memory.number(step["options"]["revision"]))]
        words = {"revoke": ["revoke"], "keepalive": ["keep-alive", "--once"], "time_to_live": ["timetolive", "--keys"]}
        return ["lease", *words[step["do"]], f"{int(step['lease']):x}"]

    def _flag(self, name: str, value: Any) -> Iterator[str]:
        match name:
            case "sort_order":
                yield f"--order={value}"
            case "sort_target":
                yield f"--sort-by={TARGETS.get(value, value)}"
            case "serializable":
                yield "--consistency=s"
            case "limit" | "revision":
                yield f"--{name[:3] if name == 'revision' else name}={self.memory.number(value)}"
            case _:
                yield f"--{name.replace('_', '-')}"

    def _script(self, step: Step) -> str:
        """Compares, Then, Else, each ended by an empty line."""
        parts = (
            map(self._compare, step["compare"]),
            map(_operation, step["success"]),
            map(_operation, step["failure"]),
        )
        return "".join("".join(f"{line}\n" for line in part) + "\n" for part in parts)

    def _compare(self, compare: Step) -> str:
        value = compare["value"] if compare["target"] == "VALUE" else self.memory.number(compare["value"])
        shown = f"{value:x}" if compare["target"] == "LEASE" else str(value)
        target = compare["target"].lower()
        return f"{target}({_quoted(compare['key'])}) {RESULTS[compare['result']]} {_quoted(shown)}"

    def _watch(self, step: Step) -> Line:
        """From the next revision on, since it does not tell when the watch is there."""
        flags = ["--prev-kv"] if step["options"].get("prev_kv") else []
        self.watches[step["name"]] = subprocess.Popen(
            [
                *(self.ctl.binary, f"--endpoints={self.ctl.endpoint}", "watch", "--write-out=json"),
                *(f"--rev={self.revision + 1}", *flags, step["key"], step["range_end"]),
            ],
            stdout=subprocess.PIPE,
            env={**os.environ, "ETCDCTL_API": "3"},
            text=True,
        )
        return {}

    def _events(self, step: Step) -> list[Line]:
        watch, seen = self.watches[step["name"]], []
        assert watch.stdout is not None
        for line in watch.stdout:
            seen += json.loads(line)["Events"]
            if any(is_put(event["kv"], step) for event in seen):
                return seen
        raise AssertionError("the watch ended")

    def _end(self, watch: "subprocess.Popen[str]") -> bool:
        with watch:
            watch.terminate()
        return True


def _operation(step: Step) -> str:
    flags = [f"--{name.replace('_', '-')}=true" for name, value in step["options"].items() if value]
    match step["do"]:
        case "put":
            value = [] if step["options"].get("ignore_value") else [_quoted(step["value"])]
            lease = [f"--lease={int(step['lease']):x}"] if step["lease"] != "0" else []
            return " ".join(["put", *flags, *lease, "--", _quoted(step["key"]), *value])
        case "range":
            return " ".join(["get", "--", _quoted(step["key"]), *map(_quoted, filter(None, [step["range_end"]]))])
    return " ".join(["del", *flags, "--", _quoted(step["key"]), *map(_quoted, filter(None, [step["range_end"]]))])


def _quoted(text: str) -> str:
    return json.dumps(text)


def _printed(line: str) -> Any:
    """Some commands print words whatever they are asked for."""
    if line.startswith("{"):
        return json.loads(line, object_pairs_hook=_named_alike)
    words, _, last = line.rpartition(" ")
    return [words, {"revision": last}] if words == "compacted revision" else [line]


def _named_alike(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {LIKE_OTHERS.get(name, name): value for name, value in pairs}

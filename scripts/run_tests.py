"""`make test`: sets up what the rings need, runs them from the fastest to the slowest, and says what was left out.

The rule: a part that GREENROOM_REQUIRE names and that cannot be had fails the run before it starts, unless the package
registry does not answer at all: then its tests are skipped, and that is the last thing printed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import setup_dynamo
import setup_etcd
import setup_etcd3_py
from setup_common import ENVIRONMENT, ROOT, SetupError

RINGS = ("unit", "property", "integration", "clients", "faults", "e2e")
PARTS: dict[str, Callable[[], Path]] = {
    "etcd": lambda: setup_etcd.ensure("etcd"),
    "etcdctl": lambda: setup_etcd.ensure("etcdctl"),
    "etcd3-py": setup_etcd3_py.ensure,
    "dynamo": setup_dynamo.ensure,
}
# Nothing but the unit tests works without an etcd.
ALWAYS_REQUIRED = frozenset({"etcd"})
SLOWEST_SHOWN = 10


def main() -> int:
    started = time.monotonic()
    required = {*ALWAYS_REQUIRED, *filter(None, os.environ.get("GREENROOM_REQUIRE", "").split(","))}
    unknown = required - set(PARTS)
    if unknown:
        print(f"set-up: GREENROOM_REQUIRE names no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
        return 2
    absent = set_up()
    fatal = {part for part in absent if is_fatal(part, absent[part], required)}
    for part in fatal:
        print(f"set-up: {part} is required: {absent[part]}", file=sys.stderr)
    if fatal:
        return 1
    code = run_pytest(required - set(absent), sys.argv[1:])
    print(f"total {time.monotonic() - started:.0f} s, set-up included")
    for part, error in absent.items():
        print(f"NOT TESTED: {part}{' (required)' if part in required else ''}: {error}")
    return code


def set_up() -> dict[str, SetupError]:
    """Gets every part; the answer says which are absent, and why."""
    absent = {}
    for part, ensure in PARTS.items():
        try:
            print(f"set-up: {part} at {ensure()}", flush=True)
        except SetupError as error:
            absent[part] = error
    return absent


def is_fatal(part: str, error: SetupError, required: set[str]) -> bool:
    return part in ALWAYS_REQUIRED or (part in required and not error.unreachable)


def run_pytest(required: set[str], arguments: list[str]) -> int:
    """`arguments` replace the rings where they name tests; options come on top of them."""
    rings = [f"tests/{ring}" for ring in RINGS if (ROOT / "tests" / ring).is_dir()]
    named = any(not argument.startswith("-") for argument in arguments)
    command = [str(ENVIRONMENT / "bin" / "python"), "-m", "pytest", f"--durations={SLOWEST_SHOWN}"]
    environment = {
        **os.environ,
        "PATH": setup_etcd.path_with_etcd(),
        "GREENROOM_REQUIRE": ",".join(sorted(required - ALWAYS_REQUIRED)),
    }
    return subprocess.run([*command, *arguments, *([] if named else rings)], cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())

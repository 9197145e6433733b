"""`make test`: sets up what the rings need, runs them from the fastest to the slowest, and says what was left out.

The tests of etcd's semantics run once more on each further version of etcd that can be had. The rule: a part that
GREENROOM_REQUIRE names and that cannot be had fails the run before it starts, unless the package registry does not
answer at all: then its tests are skipped, and that is the last thing printed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO

import setup_clients
import setup_dynamo
import setup_etcd
import setup_etcd3_py
import setup_etcd_versions
from setup_common import ENVIRONMENT, ROOT, SetupError
from setup_etcd_versions import EtcdVersion

RINGS = ("unit", "property", "integration", "clients", "faults", "e2e")
PARTS: dict[str, Callable[[], Path]] = {
    "etcd": lambda: setup_etcd.ensure("etcd"),
    "etcdctl": lambda: setup_etcd.ensure("etcdctl"),
    "etcd3-py": setup_etcd3_py.ensure,
    "aetcd": setup_clients.ensure_aetcd,
    "etcd-client-py": setup_clients.ensure_etcd_client_py,
    "npm-etcd3": setup_clients.ensure_npm_etcd3,
    "dynamo": setup_dynamo.ensure,
}
# Nothing but the unit tests works without an etcd.
ALWAYS_REQUIRED = frozenset({"etcd"})
SLOWEST_SHOWN = 10
ETCD_TESTS = "tests/integration/etcd"
"""What runs on every version."""
INTERRUPTED = 2
"""pytest's exit code after Ctrl-C."""
NOTHING_COLLECTED = 5
"""pytest's exit code where the options leave no test; for the further versions that is no failure."""


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
    if code != INTERRUPTED and on_all_versions(sys.argv[1:]):
        code = run_versions(required - set(absent), sys.argv[1:], absent) or code
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


def on_all_versions(arguments: list[str]) -> bool:
    """Whether the run is about everything: no tests are named, and no etcd."""
    return not names_tests(arguments) and not os.environ.get("GREENROOM_ETCD")


def names_tests(arguments: list[str]) -> bool:
    return any(not argument.startswith("-") for argument in arguments)


def run_versions(required: set[str], arguments: list[str], absent: dict[str, SetupError]) -> int:
    """The exit code of the first version that failed, 0 for none; adds the versions that cannot be had to `absent`.

    They run side by side, since most of these tests wait more than they work.
    """
    found, missing = setup_etcd_versions.ensure_all()
    absent.update({f"etcd of {source}": error for source, error in missing.items()})
    default = setup_etcd.version(setup_etcd.ensure("etcd"))
    further = [each for each in found if setup_etcd.version(each.etcd) != default]
    print(f"\n{ETCD_TESTS} on etcd {', '.join(each.name for each in further) or 'of no other version'}", flush=True)
    failure = 0
    with ThreadPoolExecutor(max_workers=len(further) or 1) as side_by_side:
        for run in side_by_side.map(lambda each: run_version(each, required, arguments), further):
            print(run.output, end="")
            print(f"etcd {run.name}: {'FAILED' if run.code else 'passed'} in {run.seconds:.0f} s\n", flush=True)
            failure = failure or run.code
    return failure


@dataclass(frozen=True, slots=True)
class VersionRun:
    """How the tests went on one version of etcd."""

    name: str
    code: int
    output: str
    seconds: float


def run_version(each: EtcdVersion, required: set[str], arguments: list[str]) -> VersionRun:
    started = time.monotonic()
    environment = {"GREENROOM_ETCD": str(each.etcd), "GREENROOM_ETCDCTL": str(each.etcdctl)}
    # Which tests failed last is remembered for the default etcd only.
    options = ["--quiet", "-p", "no:cacheprovider", *arguments, ETCD_TESTS]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        code = run_pytest(required, options, environment, said)
        said.seek(0)
        output = said.read()
    return VersionRun(each.name, 0 if code == NOTHING_COLLECTED else code, output, time.monotonic() - started)


def run_pytest(
    required: set[str],
    arguments: list[str],
    more: Mapping[str, str] = MappingProxyType({}),
    output: IO[str] | None = None,
) -> int:
    """`arguments` replace the rings where they name tests; options come on top. `more` is for the environment."""
    rings = [f"tests/{ring}" for ring in RINGS if (ROOT / "tests" / ring).is_dir()]
    command = [str(ENVIRONMENT / "bin" / "python"), "-m", "pytest", f"--durations={SLOWEST_SHOWN}"]
    environment = {
        **os.environ,
        "PATH": setup_etcd.path_with_etcd(),
        "GREENROOM_REQUIRE": ",".join(sorted(required - ALWAYS_REQUIRED)),
        **more,
    }
    named = [] if names_tests(arguments) else rings
    error = subprocess.STDOUT if output else None
    return subprocess.run(
        [*command, *arguments, *named], cwd=ROOT, env=environment, stdout=output, stderr=error
    ).returncode


if __name__ == "__main__":
    sys.exit(main())

"""`make test`: sets up what the rings need, runs them, and says what was left out.

The tests of etcd's semantics run once more on each further version of etcd that can be had. Several runs go on side by
side, the longest of them shown; what judges how long something takes, or how much it costs, comes after these.

The rule: a part that GREENROOM_REQUIRE names and that cannot be had fails the run before it starts, unless the package
registry does not answer at all: then its tests are skipped, and that is the last thing printed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import setup_clients
import setup_dynamo
import setup_etcd
import setup_etcd3_py
import setup_etcd_versions
from pytest_runs import Outcome, Run, Runner, exit_code, until_interrupted
from setup_common import SetupError
from setup_etcd_versions import EtcdVersion

FIRST = (("integration",), ("unit", "property"), ("clients",))
"""The rings of each run; the first takes longest, and is shown as it goes. Right whenever their answers come."""
LAST = (("faults",), ("e2e",))
"""They mostly wait, beside little else: work would be taken for the proxy's slowness."""
AT_ONCE_BESIDE = os.cpu_count() or 1
"""Tests wait as much as they work: one more than there are processors keeps all of these busy."""
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
"""What runs on every version, but for tests that are marked `once`."""


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
    with until_interrupted() as runner:
        outcomes = run(runner, required - set(absent), sys.argv[1:], absent)
    print("", *outcomes, sep="\n")
    print(f"total {time.monotonic() - started:.0f} s, set-up included")
    for part, error in absent.items():
        print(f"NOT TESTED: {part}{' (required)' if part in required else ''}: {error}")
    return exit_code(outcomes)


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


def run(runner: Runner, required: set[str], arguments: list[str], absent: dict[str, SetupError]) -> list[Outcome]:
    """What the arguments name, else everything; adds the versions that cannot be had to `absent`."""
    if names_tests(arguments):
        return [runner.show(pytest_run(" ".join(arguments), required, arguments))]
    versions = further_versions(absent) if on_all_versions(arguments) else []
    first, last = (rings_runs(each, required, arguments) for each in (FIRST, LAST))
    first += [version_run(each, required, arguments) for each in versions]
    return [*show(runner, *first), *show(runner, *last)]


def show(runner: Runner, shown: Run, *beside: Run) -> list[Outcome]:
    print(f"beside {shown.name}, and shown after it: {'; '.join(each.name for each in beside)}", flush=True)
    return runner.show_beside(shown, beside, AT_ONCE_BESIDE)


def further_versions(absent: dict[str, SetupError]) -> list[EtcdVersion]:
    """All but the default one, which runs everything; adds those that cannot be had to `absent`."""
    found, missing = setup_etcd_versions.ensure_all()
    absent.update({f"etcd of {source}": error for source, error in missing.items()})
    default = setup_etcd.version(setup_etcd.ensure("etcd"))
    return [each for each in found if setup_etcd.version(each.etcd) != default]


def version_run(each: EtcdVersion, required: set[str], arguments: Sequence[str]) -> Run:
    name = f"etcd {each.name}"
    environment = {"GREENROOM_ETCD": str(each.etcd), "GREENROOM_ETCDCTL": str(each.etcdctl)}
    return pytest_run(name, required, [*options_beside(name), "-m", "not once", *arguments, ETCD_TESTS], environment)


def rings_runs(runs: Sequence[Sequence[str]], required: set[str], arguments: Sequence[str]) -> list[Run]:
    """Of which the first is shown as it goes."""
    shown, *beside = runs
    return [
        rings_run(shown, required, arguments),
        *(rings_run(rings, required, [*options_beside("-".join(rings)), *arguments]) for rings in beside),
    ]


def rings_run(rings: Sequence[str], required: set[str], arguments: Sequence[str]) -> Run:
    return pytest_run(", ".join(rings), required, [*arguments, *(f"tests/{ring}" for ring in rings)])


def options_beside(name: str) -> list[str]:
    """What failed last is remembered apart from what runs at the same time."""
    return ["--quiet", "-o", f"cache_dir=.pytest_cache/{name.replace(' ', '-')}"]


def pytest_run(
    name: str, required: set[str], arguments: Sequence[str], more: Mapping[str, str] = MappingProxyType({})
) -> Run:
    environment = {
        "PATH": setup_etcd.path_with_etcd(),
        "GREENROOM_REQUIRE": ",".join(sorted(required - ALWAYS_REQUIRED)),
        **more,
    }
    return Run(name, [f"--durations={SLOWEST_SHOWN}", *arguments], environment)


if __name__ == "__main__":
    sys.exit(main())

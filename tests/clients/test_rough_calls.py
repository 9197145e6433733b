"""Connections that are strained go on as on etcd: the same answers then, and the same afterwards."""

import re
from pathlib import Path

from tests.clients.test_same_answers import Sides, grpcio, npms
from tests.support.answers import assert_equal, assert_equal_lanes
from tests.support.other_clients import clean_environment, node_client, python_client
from tests.support.rough_plans import big_values, storms
from tests.support.scenario import Scenario, Shape
from tests.support.two_sides import run_on_both

CALM_CALLS = 300
WATCHING = ("watch", "events", "unwatch")
AFTERWARDS = 20


def test_megabytes_through_grpc_aio(sides: Sides, tmp_path: Path) -> None:
    """Cards and plain values of a megabyte, six of them in one answer and in events; too large ones refused alike."""
    steps = [{**step, "lane": 0} for step in (*big_values(), *Scenario(11, AFTERWARDS).steps)]
    assert_equal(steps, *grpcio(sides, tmp_path, steps, "at_once.py"))


def test_megabytes_through_aetcd(sides: Sides, tmp_path: Path) -> None:
    steps = [*big_values(), *Scenario(12, AFTERWARDS).steps]
    command = python_client("aetcd", "inside_aetcd/scenario.py")
    assert_equal(steps, *run_on_both(command, steps, sides, tmp_path, clean_environment()))


def test_megabytes_through_npm_etcd3(sides: Sides, tmp_path: Path) -> None:
    """Which is told to take them: by default it does not."""
    steps = [*big_values(), *Scenario(13, AFTERWARDS).steps]
    command = node_client("npm-etcd3", "inside_npm_etcd3/scenario.js")
    assert_equal(steps, *run_on_both(command, steps, sides, tmp_path, clean_environment(), connections=npms(steps)))


def test_npm_etcd3_says_itself_what_it_does_not_take_by_default(sides: Sides, tmp_path: Path) -> None:
    """Six megabytes in one answer, on etcd and through the proxy. It asks for them three times, connecting anew, and
    would then make no further call for a while.
    """
    steps = [step for step in big_values() if step["do"] not in WATCHING]
    whole = next(number for number, step in enumerate(steps) if step["do"] == "range" and step["range_end"])
    steps = steps[: whole + 1]
    command = node_client("npm-etcd3", "inside_npm_etcd3/scenario.js", "limit")
    direct, proxied = run_on_both(command, steps, sides, tmp_path, clean_environment(), connections=3)
    assert_equal(steps[:-1], direct[:-1], proxied[:-1])
    for line in (direct[-1], proxied[-1]):
        assert re.fullmatch(
            r"8 RESOURCE_EXHAUSTED: Received message larger than max \(6\d{6} vs 4194304\)", line["error"][1]
        )


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

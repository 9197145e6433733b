"""`greenroom check card` against a proxy: what an instance registered, beside the released ones of its model."""

import json
from typing import Any

import pytest

from tests.support.endpoints import Proxy
from tests.support.waiting import wait_for
from tests.support.workers import Worker

COMPARED = "compared"


def registered(proxy: Proxy, model: str, **card: Any) -> Worker:
    worker = Worker(proxy.client, component=COMPARED, model=model)
    value = json.loads(worker.card())
    value["card_json"].update(card)
    assert worker.client.create(worker.card_key, json.dumps(value).encode(), worker.lease).succeeded
    return worker


def released(proxy: Proxy, model: str, **card: Any) -> Worker:
    worker = registered(proxy, model, **card)
    assert proxy.control.pass_gates(worker.instance) == "RELEASED"
    return worker


def check(proxy: Proxy, worker: Worker, *arguments: str) -> tuple[int, str]:
    """The exit code, and the one line, of a check after which the lists know of the worker."""
    wait_for(lambda: worker.instance in {one.id for one in proxy.control.instances()}, describe=f"{worker} is listed")
    done = proxy.greenroom.cli("check", "card", "--instance", worker.instance, *arguments)
    (line,) = (done.stdout + done.stderr).splitlines()
    return done.returncode, line


def wait_released(proxy: Proxy, worker: Worker) -> None:
    """Until the lists know of it too."""
    wait_for(lambda: worker.instance in proxy.greenroom.listed("RELEASED"), describe=f"{worker} is listed as released")


def test_a_card_like_that_of_a_released_instance_passes(proxy: Proxy) -> None:
    first, second = released(proxy, "tiny"), registered(proxy, "tiny")
    wait_released(proxy, first)
    assert check(proxy, second) == (0, f"card passed: tiny: as {first.instance} has it")


def test_another_card_is_told_by_field_and_by_whose(proxy: Proxy) -> None:
    first, second = released(proxy, "tiny"), registered(proxy, "tiny", kv_cache_block_size=32)
    wait_released(proxy, first)
    code, line = check(proxy, second)
    assert code == 1
    assert line == (
        f"card failed: tiny is not that of {first.instance} (released): kv_cache_block_size is 32 here and 64 there"
    )


def test_held_ones_are_nobody_to_compare_with(proxy: Proxy) -> None:
    registered(proxy, "tiny", kv_cache_block_size=32)
    worker = registered(proxy, "tiny")
    assert check(proxy, worker) == (75, "card inconclusive: no released instance to compare tiny with")
    assert check(proxy, worker, "--alone-is-fine") == (0, "card passed: tiny: nobody to compare with")


@pytest.mark.parametrize(
    ("expectation", "code", "line"),
    [
        (
            "kv_cache_block_size=64",
            0,
            "card passed: tiny: nobody to compare with, and as expected (kv_cache_block_size)",
        ),
        ("kv_cache_block_size=32", 1, "card failed: tiny: kv_cache_block_size is 64, expected 32"),
    ],
)
def test_what_is_expected_needs_nobody_else(proxy: Proxy, expectation: str, code: int, line: str) -> None:
    worker = registered(proxy, "tiny")
    assert check(proxy, worker, "--alone-is-fine", "--expect", expectation) == (code, line)


def test_an_instance_that_is_gone_is_inconclusive(proxy: Proxy) -> None:
    done = proxy.greenroom.cli("check", "card", "--instance", "abcdef")
    assert (done.returncode, done.stderr) == (75, "card inconclusive: no instance has id 'abcdef'; there are none\n")

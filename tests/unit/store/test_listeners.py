"""Who listens where."""

import pytest

from greenroom.core.keyspace import InstanceId
from greenroom.store.listeners import Listeners, host_of, normal, port_of

ONE, TWO = InstanceId("abc1"), InstanceId("abc2")


def test_instances_are_found_by_host_and_by_port() -> None:
    listeners = Listeners()
    listeners.tell(TWO, ["10.0.0.7:8001"])
    listeners.tell(ONE, ["10.0.0.7:8000", "[fd00::7]:8000"])
    assert listeners.at("10.0.0.7") == (ONE, TWO)
    assert listeners.at("10.0.0.7", 8001) == (TWO,)
    assert listeners.at("fd00:0::7", 8000) == (ONE,)
    assert listeners.at("10.0.0.8") == ()


def test_what_is_told_replaces_what_was() -> None:
    listeners = Listeners()
    listeners.tell(ONE, ["10.0.0.7:8000"])
    listeners.tell(ONE, ["10.0.0.8:8000"])
    assert (listeners.at("10.0.0.7"), listeners.at("10.0.0.8")) == ((), (ONE,))
    listeners.tell(ONE, [])
    assert listeners.at("10.0.0.8") == ()


@pytest.mark.parametrize(
    ("host", "expected"),
    [("[::1]", "::1"), ("::ffff:10.0.0.7", "10.0.0.7"), ("Node-7", "node-7"), ("fd00:0:0::1", "fd00::1")],
)
def test_a_host_has_one_spelling(host: str, expected: str) -> None:
    assert normal(host) == expected


def test_an_address_is_taken_apart() -> None:
    assert (host_of("node-7:80"), port_of("node-7:80")) == ("node-7", 80)
    assert (host_of("node-7"), port_of("node-7")) == ("node-7", None)

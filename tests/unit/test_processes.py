"""Ports, and limits. Children that end with their parent: tests/integration/test_processes.py."""

import resource
import signal
import socket
import sys

import pytest

from greenroom.processes import PORTS, allow_many_open_files, can_bind, die_with_parent, free_port


def test_a_port_that_is_listened_on_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not can_bind("127.0.0.1", server.getsockname()[1])


def test_an_address_of_another_machine_cannot_be_had() -> None:
    assert not can_bind("192.0.2.1", 0)


@pytest.mark.parametrize("host", ["no such name", "a..b", "\u00fc" * 70, "a\0b", "\ud800", "x" * 300])
def test_what_can_be_no_address_cannot_be_had(host: str) -> None:
    """A worker says what it likes of where it listens, and a runner asks whether that is here."""
    assert not can_bind(host, 0)


def test_where_there_is_no_ipv6_none_of_its_addresses_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    assert can_bind("::1", 0)
    monkeypatch.setattr(socket, "AF_INET6", -2)  # One that no kernel has.
    assert not can_bind("::1", 0)


def test_a_free_port_can_be_bound_and_is_no_ephemeral_one() -> None:
    port = free_port()
    assert port in PORTS
    assert can_bind("127.0.0.1", port)


def test_it_is_linux_own() -> None:
    assert (die_with_parent(signal.SIGKILL) is not None) is (sys.platform == "linux")


def test_the_limit_of_open_files_is_raised_and_never_lowered() -> None:
    """A shell's 1,024 would be used up by some 500 workers."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
        allow_many_open_files()
        raised = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert raised[1] == before[1]
        assert raised[0] > 200
        allow_many_open_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == raised
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

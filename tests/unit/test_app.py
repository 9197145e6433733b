"""Putting the proxy together: the parts of it that need no etcd."""

import socket

import pytest

from greenroom.addresses import Address
from greenroom.app import Door, Places, _first, _place
from greenroom.errors import SettingsError, StartError


def test_a_taken_port_is_told_with_its_option() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = Address("127.0.0.1", server.getsockname()[1])
        with pytest.raises(StartError, match=f"--listen '{taken}': the port is taken"):
            _place("--listen", taken)


def test_port_zero_becomes_a_real_one() -> None:
    assert _place("--listen", Address("127.0.0.1", 0)).port > 0


def test_clients_are_told_an_address_that_they_can_use() -> None:
    """An endpoint-syncing client that is told 0.0.0.0 would dial its own machine."""
    here = Address("127.0.0.1", 1)
    assert Places(Address("10.0.0.1", 2389), here, here).advertised_url == "http://10.0.0.1:2389"
    assert Places(Address("0.0.0.0", 2389), here, here).advertised_url == f"http://{socket.gethostname()}:2389"


def test_commands_name_the_control_port_only_where_they_must() -> None:
    here = Address("127.0.0.1", 1)
    assert Places(here, Address("127.0.0.1", 2390), here).control_to_name is None
    for host, said in (("127.0.0.1", "127.0.0.1:2392"), ("0.0.0.0", f"{socket.gethostname()}:2392")):
        assert Places(here, Address(host, 2392), here).control_to_name == said


@pytest.mark.parametrize("host", ["::1", "127.0.0.2", "localhost"])
def test_another_address_of_this_machine_is_not_where_commands_look(host: str) -> None:
    here = Address("127.0.0.1", 1)
    address = Address(host, 2390)
    assert Places(here, address, here).control_to_name == str(address)


def test_the_first_of_several_errors_is_told() -> None:
    inner = BaseExceptionGroup("inner", [StartError("first"), SettingsError("second")])
    assert str(_first(BaseExceptionGroup("outer", [inner]))) == "first"


def test_a_bug_among_them_is_not_hidden() -> None:
    group = BaseExceptionGroup("outer", [StartError("expected"), RuntimeError("a bug")])
    assert _first(group) is group


def test_a_proxy_is_not_ready_before_workers_are_let_in_and_while_it_stops() -> None:
    door = Door()
    assert door.why_not_ready is not None
    door.open()
    assert door.why_not_ready is None
    door.close()
    assert door.why_not_ready is not None

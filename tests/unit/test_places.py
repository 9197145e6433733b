"""Where a proxy listens."""

import os
import socket

import pytest

from greenroom.addresses import Address
from greenroom.errors import StartError
from greenroom.places import Places, _place, named, places_of
from greenroom.settings import load_settings


def test_a_taken_port_is_told_with_its_option() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = Address("127.0.0.1", server.getsockname()[1])
        with pytest.raises(StartError, match=f"--listen '{taken}': the port is taken"):
            _place("--listen", taken)


def test_port_zero_becomes_a_real_one() -> None:
    assert _place("--listen", Address("127.0.0.1", 0)).port > 0


def test_clients_are_told_an_address_that_they_can_use() -> None:
    """An endpoint-syncing client that is told 0.0.0.0 would dial its own machine."""
    assert named(Address("10.0.0.1", 2389)).url == "http://10.0.0.1:2389"
    assert named(Address("0.0.0.0", 2389, is_secure=True)).url == f"https://{socket.gethostname()}:2389"


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


def test_a_control_port_with_tls_is_always_named() -> None:
    here = Address("127.0.0.1", 1)
    control = Address("127.0.0.1", 2390, is_secure=True)
    assert Places(here, control, here).control_to_name == "https://127.0.0.1:2390 --control-ca FILE"


def test_a_control_port_that_wants_certificates_is_named_with_what_shows_one() -> None:
    here = Address("127.0.0.1", 1)
    control = Address("127.0.0.1", 2390, is_secure=True)
    assert Places(here, control, here, control_asks_certificates=True).control_to_name == (
        "https://127.0.0.1:2390 --control-ca FILE --control-cert FILE --control-key FILE"
    )


def test_each_port_is_as_secure_as_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("GREENROOM_")]:
        monkeypatch.delenv(name)
    free = {f"{port}_listen": "127.0.0.1:0" for port in ("control", "http", "public")}
    given = {"upstream": ["http://127.0.0.1:1"], "gate": ["a=1s"], "listen": "127.0.0.1:0", **free}
    with_tls = places_of(load_settings({**given, "tls_cert": "c", "tls_key": "k"}))
    assert with_tls.public is not None
    assert [place.is_secure for place in (with_tls.listen, with_tls.public, with_tls.control)] == [True, True, False]
    with_tls = places_of(load_settings({**given, "control_tls_cert": "c", "control_tls_key": "k"}))
    assert [place.is_secure for place in (with_tls.listen, with_tls.control, with_tls.http)] == [False, True, True]
    assert places_of(load_settings({**given, "public_listen": None})).public is None

"""Where previews listen, and what their clients are told."""

import socket

import pytest

from greenroom.addresses import Address
from greenroom.errors import SettingsError
from greenroom.preview.places import PreviewPlaces
from tests.support.ports import free_port


def test_ports_that_were_named_are_tried_in_order_and_taken_ones_left_out() -> None:
    taken, free = free_port(), free_port()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", taken))
        listener.listen()
        places = PreviewPlaces(ports=(taken, free))
        assert list(places.candidates()) == [Address("127.0.0.1", free)]
    assert str(places) == f"host 127.0.0.1, ports {taken}-{free}"


def test_a_host_that_is_another_machines_is_told_at_the_start() -> None:
    PreviewPlaces().check()
    with pytest.raises(SettingsError, match=r"^--preview-host '192\.0\.2\.1': is no address of this machine$"):
        PreviewPlaces("192.0.2.1").check()


def test_without_names_any_free_one_is_tried() -> None:
    assert next(PreviewPlaces().candidates()).host == "127.0.0.1"
    assert str(PreviewPlaces()) == "host 127.0.0.1"


def test_what_clients_are_told() -> None:
    here, everywhere = Address("127.0.0.1", 9), Address("0.0.0.0", 9)
    assert PreviewPlaces().told(here) == "127.0.0.1:9"
    assert PreviewPlaces(host="0.0.0.0").told(everywhere) == f"{socket.gethostname()}:9"
    assert PreviewPlaces(host="0.0.0.0", advertised="10.0.0.7").told(everywhere) == "10.0.0.7:9"

"""SETTINGS frames are read and written, and what RFC 9113 forbids is a fault."""

import pytest

from greenroom.http2.frames import Error, Fault
from greenroom.http2.settings import build, last_value, parse


def test_settings_survive_a_round_trip_and_the_last_of_a_name_counts() -> None:
    settings = [(4, 1), (99, 7), (4, 2)]
    assert parse(build(settings)) == settings
    assert last_value(settings, 4) == 2
    assert last_value(settings, 5) is None


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (b"\x00", Error.FRAME_SIZE_ERROR),
        (build([(4, 2**31)]), Error.FLOW_CONTROL_ERROR),
        (build([(5, 16_383)]), Error.PROTOCOL_ERROR),
        (build([(5, 2**24)]), Error.PROTOCOL_ERROR),
    ],
)
def test_forbidden_settings_are_a_fault(payload: bytes, code: Error) -> None:
    with pytest.raises(Fault) as caught:
        parse(payload)
    assert caught.value.code is code

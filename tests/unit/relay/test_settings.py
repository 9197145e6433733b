"""SETTINGS frames in passing, and the stream window that is safe meanwhile."""

import pytest

from greenroom.http2.frames import Error, Fault
from greenroom.relay.settings import Announced, for_client, for_upstream


def test_upstream_never_hears_of_a_header_table() -> None:
    assert for_upstream([(3, 100), (1, 4096), (4, 7)]) == [(1, 0), (3, 100), (4, 7)]
    assert for_upstream([]) == [(1, 0)]


def test_a_client_is_not_offered_a_table_that_the_relay_would_have_to_copy() -> None:
    assert for_client([(1, 2**30), (5, 20_000)]) == [(1, 65_536), (5, 20_000)]
    assert for_client([(1, 0)]) == [(1, 0)]


def test_a_smaller_window_counts_at_once_and_a_larger_one_when_acknowledged() -> None:
    announced = Announced(limit=10)
    announced.announce([(4, 10)])
    assert announced.initial_window == 10
    announced.announce([(4, 100_000)])
    assert announced.initial_window == 10
    announced.acknowledge()
    assert announced.initial_window == 10
    announced.acknowledge()
    assert announced.initial_window == 100_000


def test_settings_without_a_window_change_none() -> None:
    announced = Announced(limit=10)
    announced.announce([(3, 1)])
    announced.acknowledge()
    assert announced.initial_window == 65_535


def test_settings_that_nobody_acknowledges_are_bounded() -> None:
    announced = Announced(limit=2)
    announced.announce([])
    announced.announce([])
    with pytest.raises(Fault) as caught:
        announced.announce([])
    assert caught.value.code is Error.ENHANCE_YOUR_CALM


def test_an_acknowledgement_of_nothing_is_a_fault() -> None:
    with pytest.raises(Fault):
        Announced(limit=2).acknowledge()

"""How long is waited between tries."""

from greenroom.backoff import Backoff


def test_each_wait_is_up_to_twice_the_last_and_bounded() -> None:
    backoff = Backoff(1.0, 4.0)
    for longest in (1.0, 2.0, 4.0, 4.0, 4.0):
        assert longest / 2 <= backoff.next_seconds() <= longest


def test_after_a_success_it_starts_over() -> None:
    backoff = Backoff(1.0, 100.0)
    for _ in range(6):
        backoff.next_seconds()
    backoff.reset()
    assert backoff.next_seconds() <= 1.0


def test_a_proxy_is_back_within_five_seconds_of_etcds_return() -> None:
    backoff = Backoff()
    assert max(backoff.next_seconds() for _ in range(100)) < 5

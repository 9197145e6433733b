"""The words that differ between those who read errors."""

import pytest

from greenroom.addresses import Address
from greenroom.client.naming import ARGUMENTS
from greenroom.client.place import VARIABLES


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("UNKNOWN_INSTANCE", "instances() lists those that there are"),
        ("STALE_ATTEMPT", "look at the instance for the attempt that is open"),
        ("UNAUTHENTICATED", "token or token_file say who you are; whoever keeps the access file"),
    ],
)
def test_what_to_do_is_said_in_the_callers_words(reason: str, said: str) -> None:
    assert (ARGUMENTS.what_to_do(reason) or "").startswith(said)


def test_nothing_is_added_to_what_nobody_can_say_better() -> None:
    assert ARGUMENTS.what_to_do("INVALID_REQUEST") is None


def test_what_tls_may_need_is_named() -> None:
    assert "(cert_file, key_file)" in ARGUMENTS.tls_may_be_wanted(Address("a", 1, is_secure=True))
    assert "GREENROOM_CONTROL_CA" in VARIABLES.tls_may_be_wanted(Address("a", 1))

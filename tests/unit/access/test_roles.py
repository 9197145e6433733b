"""The table: every method of the proto has a role, and no role too little."""

import pytest

from greenroom.access.roles import METHODS, OTHERS, Role
from greenroom.pb.control.v1 import control_pb2

DECLARED = {method.name for method in control_pb2.DESCRIPTOR.services_by_name["Control"].methods}
AGREED = {
    "GetPolicy",
    "ClaimGate",
    "RenewClaim",
    "ReleaseClaim",
    "ReleaseInstance",
    "RejectInstance",
    "WithdrawInstance",
    "RetryGates",
    "DropCards",
    "RevokeLease",
}
"""Methods that the proto may have or not."""
READING = ("List", "Get", "Watch")
NO_VIEWERS = {"ListPreviews", "GetPreview"}
"""They tell the address of a way around the hold."""


def test_every_method_of_the_proto_is_in_the_table() -> None:
    assert set(METHODS) >= DECLARED, "give each new method the least role that it needs"
    assert set(METHODS) - DECLARED - OTHERS <= AGREED


@pytest.mark.parametrize("method", sorted(DECLARED))
def test_viewers_read_and_nobody_else_is_asked_to_be_more(method: str) -> None:
    """A method that changes something is not for viewers; one that reads is for all who are known, but for previews."""
    assert (METHODS[method] is Role.VIEWER) == (method.startswith(READING) and method not in NO_VIEWERS)


def test_each_role_may_what_those_before_it_may() -> None:
    assert [[role.covers(least) for least in Role] for role in Role] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]

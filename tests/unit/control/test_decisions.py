"""What of people's decisions needs no etcd. The rest is shown in tests/integration/test_decisions.py."""

import grpc
import pytest

from greenroom.control.decisions import _lacks_space
from greenroom.errors import InvalidRequest, RevokeLeaseOff
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.mirroring import ONE, fed_follower, held
from tests.unit.control.test_service import service_of


async def test_a_proxy_that_was_not_told_so_ends_no_lease_and_names_the_option() -> None:
    """Whatever the request is: a mistake in it is not what keeps it from being done."""
    decisions = service_of(fed_follower(held(ONE))).decisions
    with pytest.raises(RevokeLeaseOff, match="start it with --allow-revoke-lease"):
        await decisions.revoke_lease(pb.RevokeLeaseRequest())


async def test_a_mistake_is_found_before_etcd_is_asked() -> None:
    decisions = service_of(fed_follower(held(ONE))).decisions
    with pytest.raises(InvalidRequest, match="override"):
        await decisions.release(pb.ReleaseInstanceRequest(name=f"instances/{ONE}", reason="r", actor="a"))


@pytest.mark.parametrize(
    ("code", "details", "lacks"),
    [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded", True),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "trying to send message larger than max", False),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, None, False),
        (grpc.StatusCode.UNAVAILABLE, "etcdserver: mvcc: database space exceeded", False),
    ],
)
def test_what_means_that_etcd_is_full(code: grpc.StatusCode, details: str | None, lacks: bool) -> None:
    error = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)
    assert _lacks_space(error) == lacks

"""The runner's calls: in whose name they are made, and what their errors come to.

What a proxy answers is in tests/integration/test_gates_run.py.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from greenroom.cli.client import OPTIONS
from greenroom.client.place import Place
from greenroom.errors import ControlError
from greenroom.gates.control_calls import RunnerCalls
from greenroom.gates.plan import Job
from greenroom.gates.result import Outcome, Result
from greenroom.pb.control.v1 import control_pb2 as pb
from greenroom.pb.control.v1 import control_pb2_grpc
from tests.support.ports import free_port

JOB = Job("5", "smoke", 2)


class Proxies(control_pb2_grpc.ControlServicer):
    """Takes note of who claims; wants a name where `names` says so."""

    def __init__(self, *, names: bool) -> None:
        self.names, self.runners = names, list[str]()

    async def ClaimGate(self, request: pb.ClaimGateRequest, context: Any) -> pb.Claim:  # noqa: N802  # the proto's name
        self.runners.append(request.runner)
        if self.names and not request.runner:
            await context.abort_with_status(rpc_status.to_status(_missing("runner")))
        return pb.Claim(lease="5")

    async def ReportVerdict(self, request: pb.ReportVerdictRequest, context: Any) -> pb.ReportVerdictResponse:  # noqa: N802
        self.runners.append(request.reporter)
        return pb.ReportVerdictResponse()


def _missing(field: str) -> status_pb2.Status:
    detail = AnyMessage()
    detail.Pack(error_details_pb2.ErrorInfo(reason="INVALID_REQUEST", metadata={"field": field}))
    return status_pb2.Status(code=3, message=f"{field}: is missing", details=[detail])


@asynccontextmanager
async def calling(proxy: Proxies, token: str = "", *, is_named: bool = False) -> AsyncIterator[RunnerCalls]:
    server = grpc.aio.server()
    control_pb2_grpc.add_ControlServicer_to_server(proxy, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        place = Place(control=f"127.0.0.1:{port}", token=token)
        async with RunnerCalls(place, OPTIONS, name="runner-1", is_named=is_named) as calls:
            yield calls
    finally:
        await server.stop(None)


TOKEN = "a" * 43


@pytest.mark.parametrize(
    ("names", "token", "is_named", "said"),
    [
        (True, "", False, ["runner-1", "runner-1"]),
        (False, TOKEN, False, ["", ""]),
        (False, TOKEN, True, ["runner-1", "runner-1"]),
        (True, TOKEN, False, ["", "runner-1", "runner-1"]),
    ],
)
async def test_the_name_is_said_where_the_proxy_does_not_know_it(
    names: bool, token: str, is_named: bool, said: list[str]
) -> None:
    proxy = Proxies(names=names)
    async with calling(proxy, token, is_named=is_named) as calls:
        for _ in range(2):
            assert (await calls.claim(JOB, 30)).lease == "5"
    assert proxy.runners == said


async def test_of_many_who_share_a_token_only_claims_say_which_one() -> None:
    """The proxy takes no other name than the token's for who reports."""
    proxy = Proxies(names=False)
    async with calling(proxy, TOKEN, is_named=True) as calls:
        await calls.claim(JOB, 30)
        await calls.report(JOB, Result(Outcome.PASSED))
    assert proxy.runners == ["runner-1", ""]


async def test_errors_are_one_line_and_may_pass() -> None:
    place = Place(control=f"127.0.0.1:{free_port()}")
    async with RunnerCalls(place, OPTIONS, name="runner-1", is_named=False) as calls:
        with pytest.raises(ControlError, match="no control API answers at") as refused:
            await calls.policy()
        assert refused.value.may_pass
        with pytest.raises(ControlError, match="no control API answers at"):
            await anext(aiter(calls.watch("")))

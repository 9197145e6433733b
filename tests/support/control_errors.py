"""What an error of the control API says, for programs."""

import grpc
from google.rpc import error_details_pb2  # type: ignore[import-untyped]  # the package has no types
from grpc_status import rpc_status


def error_info(error: grpc.aio.AioRpcError) -> error_details_pb2.ErrorInfo:
    """The one ErrorInfo of an error; AssertionError where there is not exactly one."""
    status = rpc_status.from_call(error)  # type: ignore[arg-type]  # it asks for no more than an error has
    assert status is not None
    assert len(status.details) == 1
    assert status.message == error.details()
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert info.domain == "greenroom"
    return info

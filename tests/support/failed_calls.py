"""Errors of gRPC as grpcio raises them, without a call."""

from typing import Any

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]  # the package has no types


class Failed(grpc.RpcError):
    """As grpcio raises it, with a google.rpc.Status in its trailers where `reason` is given."""

    def __init__(self, code: grpc.StatusCode, details: str, reason: str = "", **metadata: str) -> None:
        super().__init__(details)
        self._code, self._details, self._reason, self._metadata = code, details, reason, metadata

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> Any:
        if not self._reason:
            return ()
        info = any_pb2.Any()
        info.Pack(error_details_pb2.ErrorInfo(reason=self._reason, domain="greenroom", metadata=self._metadata))
        status = status_pb2.Status(code=self._code.value[0], message=self._details, details=[info])
        return (("grpc-status-details-bin", status.SerializeToString()),)

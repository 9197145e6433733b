"""The calls of the control API that a runner makes, in its event loop, where whoever cancels a call ends it.

The rule: no decisions here. What the proxy answers comes out as it is, or as one ControlError.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, Self, TypeVar

import grpc
from google.protobuf.duration_pb2 import Duration

from greenroom.client.calls import CALL_SECONDS, CHANNEL_OPTIONS
from greenroom.client.naming import Naming
from greenroom.client.place import Place
from greenroom.client.refusals import in_words
from greenroom.core.policy import Policy
from greenroom.errors import ControlError
from greenroom.gates.plan import Job
from greenroom.gates.result import Result
from greenroom.pb.control.v1 import control_pb2, control_pb2_grpc
from greenroom.policy_file import PolicyFileError, parse_policy

Answer = TypeVar("Answer")
RUNNER: Final = "runner"
NAMES: Final = (RUNNER, "reporter", "actor")
"""The fields that say who is asking."""


class RunnerCalls:
    """One connection to a proxy's control port; `async with` opens and closes it.

    `name` is who claims and reports, which is left to the token or certificate where there is one: then many runners
    may share it, and the name, where `is_named`, tells whose a claim is, as `ci/gpu-7` does.
    """

    def __init__(self, place: Place, naming: Naming, *, name: str, is_named: bool) -> None:
        self.address = place.address(naming)
        self._naming, self._credentials = naming, place.credentials(naming)
        token = place.known_token(naming)
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._is_known = bool(token or place.cert)
        self._name, self._runner = name, name if is_named else ""

    async def __aenter__(self) -> Self:
        target = str(self.address)
        if self._credentials is None:
            self._channel = grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS)
        else:
            self._channel = grpc.aio.secure_channel(target, self._credentials, options=CHANNEL_OPTIONS)
        self._stub: Any = control_pb2_grpc.ControlStub(self._channel)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    async def policy(self) -> Policy | None:
        """The policy in force at the proxy; None for one of a newer version, which this one cannot read."""
        said = await self._call(self._stub.GetPolicy, control_pb2.GetPolicyRequest())
        try:
            return parse_policy(said.text)
        except PolicyFileError:
            return None

    async def watch(self, token: str) -> AsyncIterator[control_pb2.WatchInstancesResponse]:
        """What is, or what is different since the token, and then what changes, to the end of the stream."""
        request = control_pb2.WatchInstancesRequest(resume_token=token)
        call = self._stub.WatchInstances(request, metadata=self._metadata)
        try:
            async for response in call:
                yield response
        except grpc.RpcError as error:
            raise self._in_words(error) from error
        finally:
            call.cancel()

    async def claim(self, job: Job, ttl_seconds: float) -> control_pb2.Claim:
        """The attempt is ours for so long; ControlError says who has it, or why nobody may."""
        asked = control_pb2.ClaimGateRequest(
            name=_name(job), gate=job.gate, attempt=job.attempt, ttl=Duration(seconds=round(ttl_seconds))
        )
        return await self._in_own_name(self._stub.ClaimGate, asked, asked, RUNNER)

    async def renew(self, claim: control_pb2.Claim) -> control_pb2.Claim:
        """It has its whole time again."""
        asked = control_pb2.RenewClaimRequest(name=claim.name, lease=claim.lease)
        return await self._call(self._stub.RenewClaim, asked)

    async def release(self, claim: control_pb2.Claim) -> None:
        """Gives it back."""
        asked = control_pb2.ReleaseClaimRequest(name=claim.name, lease=claim.lease)
        await self._call(self._stub.ReleaseClaim, asked)

    async def report(self, job: Job, result: Result) -> control_pb2.ReportVerdictResponse:
        """Stores the verdict."""
        outcome = control_pb2.Outcome.Value(f"OUTCOME_{result.outcome.name}")
        asked = control_pb2.ReportVerdictRequest(
            name=_name(job), gate=job.gate, attempt=job.attempt, outcome=outcome, reason=result.reason
        )
        return await self._in_own_name(self._stub.ReportVerdict, asked, asked, "reporter")

    async def open_preview(self, instance: str, ttl_seconds: float) -> control_pb2.Preview:
        """One that shows this instance and no other."""
        ttl = Duration(seconds=round(ttl_seconds))
        preview = control_pb2.Preview(instance=f"instances/{instance}", only=True, ttl=ttl)
        asked = control_pb2.OpenPreviewRequest(preview=preview)
        return await self._in_own_name(self._stub.OpenPreview, asked, asked.preview, "actor")

    async def preview(self, name: str) -> control_pb2.Preview:
        """As it is."""
        return await self._call(self._stub.GetPreview, control_pb2.GetPreviewRequest(name=name))

    async def close_preview(self, name: str) -> None:
        """Frees its port."""
        await self._call(self._stub.ClosePreview, control_pb2.ClosePreviewRequest(name=name))

    async def _in_own_name(
        self, method: Callable[..., Awaitable[Answer]], asked: object, named: object, field: str
    ) -> Answer:
        """A call whose message `named` says who asks. A proxy without an access file knows no tokens."""
        setattr(named, field, said := self._said_in(field))
        try:
            return await self._call(method, asked)
        except ControlError as error:
            if said or error.field.rpartition(".")[2] not in NAMES:
                raise
        self._is_known = False
        setattr(named, field, self._said_in(field))
        return await self._call(method, asked)

    def _said_in(self, field: str) -> str:
        """Who asks, in a field of that name; empty where the proxy knows it."""
        if not self._is_known:
            return self._name
        return self._runner if field == RUNNER else ""

    async def _call(self, method: Callable[..., Awaitable[Answer]], asked: object) -> Answer:
        try:
            return await method(asked, timeout=CALL_SECONDS, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self._in_words(error) from error

    def _in_words(self, error: grpc.RpcError) -> ControlError:
        return in_words(error, self.address, self._naming)


def _name(job: Job) -> str:
    return f"instances/{job.instance}"

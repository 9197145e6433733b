"""The calls of the control API: one method each, every error one line that says what to do.

The rule: no decisions here. What the proxy answers comes out as it is, or as one ControlError. What programs and
commands are given stands on this.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from threading import Event
from time import monotonic
from typing import Any, Self, TypeVar

import grpc

from greenroom.addresses import Address
from greenroom.client.naming import ARGUMENTS, Naming
from greenroom.client.place import Place
from greenroom.client.refusals import in_words
from greenroom.errors import ControlError
from greenroom.pb.control.v1 import control_pb2, control_pb2_grpc
from greenroom.pb.control.v1.control_pb2 import WatchInstancesResponse

Answer = TypeVar("Answer")
CALL_SECONDS = 10.0
"""The proxy gives up a contended fence after 5 s; what takes longer than this is not there."""
PAGE_SIZE = 500
CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.enable_http_proxy", 0),
    # Whoever waits through a proxy's restart should see it come back; gRPC would try every two minutes in the end.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # A stream is silent for long; a machine that vanished meanwhile would never be noticed.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),
    # A page of instances with long reasons is larger than the 4 MiB that gRPC takes otherwise.
    ("grpc.max_receive_message_length", -1),
)


class ControlCalls:
    """One connection to a proxy's control port; `with` closes it. Any number of threads may share it.

    Each call may take CALL_SECONDS, and none goes on beyond `deadline` (of time.monotonic) where there is one.
    """

    naming: Naming = ARGUMENTS
    """In whose words errors are told."""

    def __init__(
        self,
        address: Address,
        token: str | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        *,
        shows_certificate: bool = False,
    ) -> None:
        self.address = address
        self.is_known = token is not None or shows_certificate
        """Whether it shows who is calling, so that no request has to say so."""
        # As plain metadata: gRPC takes a call's credentials over TLS only, and a proxy on loopback has none.
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self.deadline: float | None = None
        self._closed = Event()
        self._channel = _channel(str(address), credentials)
        self._stub = control_pb2_grpc.ControlStub(self._channel)

    @classmethod
    def at(cls, place: Place, naming: Naming | None = None) -> Self:
        """A connection to the place, which is wrong in words of `naming`; SettingsError."""
        words = naming or cls.naming
        address, credentials = place.address(words), place.credentials(words)
        calls = cls(address, place.known_token(words), credentials, shows_certificate=bool(place.cert))
        calls.naming = words
        return calls

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends whatever call is under way, and is the end of those that come: ControlError."""
        self._closed.set()
        self._channel.close()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called, here or on what is the same connection."""
        return self._closed.is_set()

    def until(self, deadline: float) -> Self:
        """The same connection, for calls that end by then at the latest."""
        bounded = copy(self)
        bounded.deadline = deadline
        return bounded

    def instances(self, **filters: Any) -> list[control_pb2.Instance]:
        """All instances that the filters (`state`, `namespace`, `component`, `model`) leave, by id."""
        request = control_pb2.ListInstancesRequest(page_size=PAGE_SIZE, **filters)
        pages = self._pages(self._stub.ListInstances, request)
        return [instance for page in pages for instance in page.instances]

    def instance(self, name: str) -> control_pb2.Instance:
        """One instance by its resource name."""
        return self._call(self._stub.GetInstance, control_pb2.GetInstanceRequest(name=name))

    def watch_instances(self, resume_token: str = "", **filters: Any) -> Iterator[WatchInstancesResponse]:
        """What is, or what is different since the token, and then what changes: to the deadline, or without end."""
        request = control_pb2.WatchInstancesRequest(resume_token=resume_token, **filters)
        timeout = None if self.deadline is None else max(0.0, self.deadline - monotonic())
        with self._in_words():
            call = self._stub.WatchInstances(request, timeout=timeout, metadata=self._metadata)
            answered = False
            try:
                for response in call:
                    answered = True
                    yield response
            except grpc.RpcError as error:
                if not answered or error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise
            finally:
                call.cancel()

    def report_verdict(self, request: control_pb2.ReportVerdictRequest) -> control_pb2.ReportVerdictResponse:
        """Stores a verdict."""
        return self._call(self._stub.ReportVerdict, request)

    def claim_gate(self, request: control_pb2.ClaimGateRequest) -> control_pb2.Claim:
        """Claims an attempt of a gate."""
        return self._call(self._stub.ClaimGate, request)

    def renew_claim(self, claim: control_pb2.Claim) -> control_pb2.Claim:
        """Gives it its whole time again."""
        request = control_pb2.RenewClaimRequest(name=claim.name, lease=claim.lease)
        return self._call(self._stub.RenewClaim, request)

    def release_claim(self, claim: control_pb2.Claim) -> None:
        """Gives it back."""
        request = control_pb2.ReleaseClaimRequest(name=claim.name, lease=claim.lease)
        self._call(self._stub.ReleaseClaim, request)

    def rollout_holds(self) -> list[control_pb2.RolloutHold]:
        """All rollout holds in force."""
        pages = self._pages(self._stub.ListRolloutHolds, control_pb2.ListRolloutHoldsRequest(page_size=PAGE_SIZE))
        return [hold for page in pages for hold in page.rollout_holds]

    def create_rollout_hold(self, hold: control_pb2.RolloutHold, hold_id: str = "") -> control_pb2.RolloutHold:
        """Stops releases; an empty id lets the proxy choose one."""
        request = control_pb2.CreateRolloutHoldRequest(rollout_hold=hold, rollout_hold_id=hold_id)
        return self._call(self._stub.CreateRolloutHold, request)

    def lift_rollout_hold(self, name: str) -> control_pb2.RolloutHold:
        """Lets releases go on; the hold as it was."""
        request = control_pb2.LiftRolloutHoldRequest(name=name)
        return self._call(self._stub.LiftRolloutHold, request).rollout_hold

    def release_instance(self, request: control_pb2.ReleaseInstanceRequest) -> control_pb2.ReleaseInstanceResponse:
        """Releases against its gates."""
        return self._call(self._stub.ReleaseInstance, request)

    def reject_instance(self, request: control_pb2.RejectInstanceRequest) -> control_pb2.RejectInstanceResponse:
        """Keeps out, whatever its gates say."""
        return self._call(self._stub.RejectInstance, request)

    def withdraw_instance(self, request: control_pb2.WithdrawInstanceRequest) -> control_pb2.WithdrawInstanceResponse:
        """Takes back what is released."""
        return self._call(self._stub.WithdrawInstance, request)

    def retry_gates(self, request: control_pb2.RetryGatesRequest) -> control_pb2.RetryGatesResponse:
        """Opens new attempts."""
        return self._call(self._stub.RetryGates, request)

    def drop_cards(self, request: control_pb2.DropCardsRequest) -> control_pb2.DropCardsResponse:
        """Forgets what is held."""
        return self._call(self._stub.DropCards, request)

    def revoke_lease(self, request: control_pb2.RevokeLeaseRequest) -> control_pb2.RevokeLeaseResponse:
        """Ends the instance's lease."""
        return self._call(self._stub.RevokeLease, request)

    def policy(self) -> control_pb2.Policy:
        """The policy in force at this proxy."""
        return self._call(self._stub.GetPolicy, control_pb2.GetPolicyRequest())

    def open_preview(self, preview: control_pb2.Preview) -> control_pb2.Preview:
        """Opens one; the answer has its address."""
        return self._call(self._stub.OpenPreview, control_pb2.OpenPreviewRequest(preview=preview))

    def previews(self) -> list[control_pb2.Preview]:
        """Those that are open at this proxy."""
        return list(self._call(self._stub.ListPreviews, control_pb2.ListPreviewsRequest()).previews)

    def close_preview(self, name: str) -> control_pb2.Preview:
        """Closes one; the preview as it was."""
        return self._call(self._stub.ClosePreview, control_pb2.ClosePreviewRequest(name=name)).preview

    def _pages(self, method: Callable[..., Any], request: Any) -> Iterator[Any]:
        while True:
            page = self._call(method, request)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def _call(self, method: Callable[..., Answer], request: object) -> Answer:
        with self._in_words():
            return method(request, timeout=self._timeout_seconds(), metadata=self._metadata)

    def _timeout_seconds(self) -> float:
        return CALL_SECONDS if self.deadline is None else min(CALL_SECONDS, max(0.0, self.deadline - monotonic()))

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except (grpc.RpcError, ValueError) as error:
            if self.is_closed and _is_cut_off(error):
                raise ControlError(f"the client of {self.address} is closed") from error
            if isinstance(error, ValueError):
                raise
            raise in_words(error, self.address, self.naming) from error


def _is_cut_off(error: grpc.RpcError | ValueError) -> bool:
    """Whether it is what gRPC says of a call on a closed channel, or of one that was under way when that was closed."""
    return isinstance(error, ValueError) or error.code() is grpc.StatusCode.CANCELLED


def _channel(target: str, credentials: grpc.ChannelCredentials | None) -> grpc.Channel:
    if credentials is None:
        return grpc.insecure_channel(target, options=CHANNEL_OPTIONS)
    return grpc.secure_channel(target, credentials, options=CHANNEL_OPTIONS)

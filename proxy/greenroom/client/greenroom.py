"""The client for programs that write gates: what is held and why, waiting, claims, verdicts, previews.

The rule: blocking calls, values in and out. Whatever fails is a ControlError, whose `reason` is for programs and whose
text says what to do; where there is no such instance, a NoSuchInstanceError. What was given wrongly is a SettingsError
before anything is sent.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from time import monotonic, sleep
from typing import Final, Self, TypeVar

from greenroom.addresses import DEFAULT_CONTROL
from greenroom.backoff import Backoff
from greenroom.client.callers import in_the_name_of, myself
from greenroom.client.calls import ControlCalls
from greenroom.client.claims import KeptClaim
from greenroom.client.following import Trouble, followed
from greenroom.client.naming import ARGUMENTS, Naming
from greenroom.client.place import VARIABLES, Place, place_from_environment
from greenroom.client.reading import (
    end_of_reason,
    instance_of,
    name_of,
    outcome_number,
    preview_of,
    preview_request,
    state_filter,
    verdict_of,
)
from greenroom.client.values import Change, Instance, Outcome, Preview, Selector, State, Verdict
from greenroom.client.waiting import Wait
from greenroom.client.watching import Told
from greenroom.errors import ControlError
from greenroom.pb.control.v1 import control_pb2 as pb

Answer = TypeVar("Answer")
REPORT_SECONDS: Final = 60.0
"""A restart of the proxy takes less, and what a check found out is worth so much patience."""

_log = logging.getLogger("greenroom.client")


class Greenroom:
    """One connection to a proxy's control port; `with` closes it. Any number of threads may share it.

    `address` is host:port, or an https:// URL, which needs `ca_file`, and `cert_file` with `key_file` where the port
    asks for a certificate. A `token`, or the one line of `token_file`, says who is calling where the proxy wants to
    know; it crosses a network in plaintext only with `insecure_token`. SettingsError where any of it is no good.
    """

    def __init__(
        self,
        address: str = DEFAULT_CONTROL,
        *,
        token: str = "",
        token_file: str = "",
        ca_file: str = "",
        cert_file: str = "",
        key_file: str = "",
        insecure_token: bool = False,
    ) -> None:
        self._connect(Place(address, ca_file, cert_file, key_file, token, token_file, insecure_token), ARGUMENTS)

    @classmethod
    def from_environment(cls) -> Self:
        """As the command line: GREENROOM_CONTROL, GREENROOM_CONTROL_CA, _CERT and _KEY, GREENROOM_TOKEN or _FILE."""
        made = cls.__new__(cls)
        made._connect(place_from_environment(), VARIABLES)
        return made

    def _connect(self, place: Place, naming: Naming) -> None:
        self._calls = ControlCalls.at(place, naming)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Greenroom({self._calls.address})"

    def close(self) -> None:
        """Ends what other threads do with it: a watch just ends, a call is a ControlError.

        A claim or a preview in whose block they are is not given back any more, and ends with its time.
        """
        self._calls.close()

    def instances(
        self, *, state: State | str | None = None, namespace: str = "", component: str = "", model: str = ""
    ) -> list[Instance]:
        """All that match every filter given, in the order in which they were first seen; may be a moment behind."""
        found = self._calls.instances(state=state_filter(state), namespace=namespace, component=component, model=model)
        return [instance_of(message) for message in found]

    def instance(self, instance: str) -> Instance:
        """One, read from etcd. NoSuchInstanceError: never registered, or its lease ended."""
        return instance_of(self._calls.instance(name_of(instance)))

    def watch(
        self, *, state: State | str | None = None, namespace: str = "", component: str = "", model: str = ""
    ) -> Iterator[Change]:
        """What is there (EXISTING), and then each change, without end; leave the loop, or close, to end it.

        Of several changes that are not fetched yet the last is told, and a state may be told again. Where the stream
        breaks it is resumed; while nobody answers, a warning is logged and the proxy asked again. Where what happened
        meanwhile is not known any more, all that there is comes again as EXISTING, and what is gone as REMOVED.
        """
        filters = {"state": state_filter(state), "namespace": namespace, "component": component, "model": model}
        try:
            for changes in followed(self._calls, Told(), Trouble(_log.warning), **filters):
                yield from changes
        except ControlError:
            if not self._calls.is_closed:
                raise

    def wait(self, instance: str, *, until: State | str = State.RELEASED, timeout_seconds: float) -> Instance:
        """The instance, once it is in that state, as is noticed 2 s later at the latest.

        A proxy that is away is asked again until the time is over.

        TimedOutError says what it still waits for. NoSuchInstanceError at once where it is gone, or was never there;
        RejectedError where its release is waited for and it is rejected.
        """
        return Wait(self._calls, instance, until, timeout_seconds).result()

    def report(
        self,
        instance: str,
        gate: str,
        outcome: Outcome | str,
        *,
        attempt: int,
        reason: str = "",
        reporter: str = "",
    ) -> Verdict:
        """Says what was found on this attempt, of which the last 2 KiB of `reason` are kept.

        The same verdict may be said twice, so while nobody answers it is said again, for REPORT_SECONDS. Leave
        `reporter` empty where a token says who it is. ControlError STALE_ATTEMPT: another attempt is open, check
        again; VERDICT_ALREADY_GIVEN: it was decided otherwise.
        """
        request = pb.ReportVerdictRequest(
            name=name_of(instance),
            gate=gate,
            attempt=attempt,
            outcome=outcome_number(outcome),
            reason=end_of_reason(reason),
            reporter=reporter,
        )
        return verdict_of(_patiently(lambda: self._calls.report_verdict(request), monotonic() + REPORT_SECONDS))

    @contextmanager
    def claim(
        self, instance: str, gate: str, attempt: int, *, runner: str = "", ttl_seconds: float = 60.0
    ) -> Iterator[KeptClaim]:
        """The attempt is `runner`'s alone while the block runs: renewed by a thread, given back at its end.

        It ends `ttl_seconds` (5 s to an hour) after the program did. Look at `.lost`, or wait for it: the check must
        stop when it is set. ControlError GATE_CLAIMED: another runner is at it; TOO_MANY_CLAIMS: try again later.
        """
        request = pb.ClaimGateRequest(name=name_of(instance), gate=gate, attempt=attempt, runner=runner)
        request.ttl.FromTimedelta(timedelta(seconds=ttl_seconds))
        claimed_at = monotonic()
        kept = KeptClaim(self._calls, self._calls.claim_gate(request), ttl_seconds, claimed_at)
        try:
            yield kept
        finally:
            kept.close()

    @contextmanager
    def open_preview(
        self,
        *,
        instance: str = "",
        only: bool = False,
        selector: Selector | None = None,
        ttl_seconds: float = 0.0,
        actor: str = "",
    ) -> Iterator[Preview]:
        """An address where etcd's clients see held keys as if released, while the block runs: those of one instance,
        with `only` of no other one; or of all that a selector matches; or all.

        It closes by itself after `ttl_seconds`, an hour where that is 0, and that of one instance also a moment after
        its release or its lease's end. It is this proxy's alone, and ends with it. Leave `actor` empty to be named by
        your token, or as user@host.
        """
        asked = preview_request(instance, selector, ttl_seconds, only=only)

        def send(name: str) -> pb.Preview:
            asked.actor = name
            return self._calls.open_preview(asked)

        opened = in_the_name_of(actor or ("" if self._calls.is_known else myself()), send)
        try:
            yield preview_of(opened)
        finally:
            # It is closed already, or will be with its proxy or its time.
            with suppress(ControlError):
                self._calls.close_preview(opened.name)


def _patiently(call: Callable[[], Answer], deadline: float) -> Answer:
    """The answer to a call that may be made twice; ControlError where asking again cannot help, or at the deadline.

    The last one has its whole time: cut short it would say nothing of why nobody answers.
    """
    backoff = Backoff()
    while True:
        try:
            return call()
        except ControlError as error:
            pause = backoff.next_seconds()
            if not error.may_pass or monotonic() + pause >= deadline:
                raise
        sleep(pause)

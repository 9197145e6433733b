"""Health answers about instances: what readiness probes of pods ask, which mostly do not know their instance's id.

The rule: 200 only for an instance that is known to be released, or in dry run. That is told from the mirror, even while
etcd is away: an outage of etcd must not make every pod of a fleet unready at once. What was never known is never
healthy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from greenroom.addresses import Address
from greenroom.control.requests import instance_of
from greenroom.control.views import INSTANCES
from greenroom.core.decide import conditions
from greenroom.core.fleet import UNLIMITED, Limits
from greenroom.core.keyspace import InstanceId
from greenroom.errors import InvalidRequest
from greenroom.store.fenced import Clock
from greenroom.store.follower import Follower
from greenroom.store.mirrored import MirroredInstance

HEALTHY, UNHEALTHY, WRONG = 200, 503, 400


@dataclass(frozen=True, slots=True)
class Place:
    """Where a worker listens; without a port, anywhere on that host."""

    host: str
    port: int | None

    def __str__(self) -> str:
        return self.host if self.port is None else str(Address(self.host, self.port))


class Health:
    """Answers from what `follower` mirrors. `limits` are those that keep a ready instance waiting for its turn."""

    def __init__(self, follower: Follower, limits: Callable[[], Limits] = lambda: UNLIMITED, *, clock: Clock) -> None:
        self._follower, self._mirror = follower, follower.mirror
        self._limits, self._clock = limits, clock

    async def of_instance(self, request: Request) -> Response:
        """`/v1/instances/{id}/health`."""
        try:
            instance = instance_of(f"{INSTANCES}{request.path_params['instance']}")
        except InvalidRequest as error:
            return _said(WRONG, [str(error)])
        return self._answer([instance], f"no instance {instance}: it never registered, or its lease ended")

    async def at_address(self, request: Request) -> Response:
        """`/v1/health?address=IP[:PORT]`, by default that of whoever asks."""
        try:
            place = place_of(request.query_params.get("address") or _caller(request))
        except ValueError as error:
            return _said(WRONG, [f"address: {error}"])
        words = f"no instance with a card says that it listens at {place}"
        return self._answer(self._mirror.listeners.at(place.host, place.port), words)

    def _answer(self, asked: Sequence[InstanceId], unknown: str) -> Response:
        found = [mirrored for instance in asked if (mirrored := self._mirror.instance(instance)) is not None]
        why_stale = self._follower.why_not_ready
        said = [self._told(mirrored) for mirrored in found]
        is_healthy = bool(found) and all(mirrored.serves for mirrored in found)
        reasons = [reason for one in said for reason in one["reasons"]] if found else [unknown]
        if why_stale is not None:
            reasons.append(f"as last known: {why_stale}")
        return _said(HEALTHY if is_healthy else UNHEALTHY, reasons, said)

    def _told(self, mirrored: MirroredInstance) -> dict[str, Any]:
        instance, record = mirrored.instance, mirrored.record
        answers = conditions(
            record,
            live_cards=mirrored.live_cards,
            rollout_holds=self._mirror.rollout_holds,
            standing=self._limits().standing(instance, self._clock()),
            conflicts=self._mirror.conflicts(instance, record, mirrored.held),
        )
        return {
            "instance": instance,
            "state": record.state.value,
            "models": record.distinct("model"),
            "gates": {name: gate.state.value for name, gate in sorted(record.gates.items())},
            "reasons": [] if mirrored.serves else [answer.message for answer in answers if not answer.status],
        }


def without_details(code: int) -> Response:
    """The same answer for whoever is not known: a probe has no token, and looks at the code alone."""
    return _said(code, ["the rest is for those who are known here: send a token"])


def place_of(text: str) -> Place:
    """`10.0.0.7`, `10.0.0.7:8000`, `::1`, `[::1]:8000`; ValueError for anything that names no host."""
    bare = text.strip()
    if bare.count(":") > 1 and not bare.startswith("["):
        return Place(bare, None)
    if bare.startswith("[") and bare.endswith("]"):
        return Place(bare[1:-1], None)
    if ":" not in bare:
        if not bare:
            raise ValueError("is empty")
        return Place(bare, None)
    address = Address.parse(bare)
    return Place(address.host, address.port)


def _caller(request: Request) -> str:
    return request.client.host if request.client else ""


def _said(code: int, reasons: Sequence[str], instances: Sequence[dict[str, Any]] = ()) -> Response:
    return JSONResponse({"healthy": code == HEALTHY, "reasons": reasons, "instances": instances}, status_code=code)

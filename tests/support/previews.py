"""The previews of a proxy in the test's own event loop, with nothing open yet."""

from typing import Any

from prometheus_client import CollectorRegistry

from greenroom.control.preview_metrics import PreviewMetrics
from greenroom.core.templates import GatedKeys, dynamo_gated_keys
from greenroom.preview.places import PreviewPlaces
from greenroom.preview.previews import Previews
from greenroom.store.fenced import Clock
from greenroom.store.follower import Follower
from greenroom.store.upstream import Upstream

GATED = dynamo_gated_keys(instances=False)


def previews_before(
    upstream: Upstream,
    follower: Follower,
    *,
    clock: Clock,
    log: Any,
    registry: CollectorRegistry | None = None,
    gated_keys: GatedKeys = GATED,
    places: PreviewPlaces | None = None,
) -> Previews:
    """On any free ports of this machine unless told."""
    told = PreviewMetrics(registry or CollectorRegistry())
    return Previews(upstream, follower, gated_keys, places or PreviewPlaces(), clock=clock, log=log, told=told)

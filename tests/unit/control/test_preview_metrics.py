"""What monitoring sees of previews."""

from prometheus_client import CollectorRegistry

from greenroom.control.preview_metrics import PreviewMetrics
from greenroom.preview.previews import Cause


def test_open_ones_and_what_closed_the_others() -> None:
    registry = CollectorRegistry()
    metrics = PreviewMetrics(registry)
    assert {registry.get_sample_value("greenroom_previews_closed_total", {"cause": "lease_ended"})} == {0.0}
    metrics.opened()
    metrics.opened()
    metrics.closed(Cause.LEASE_ENDED)
    assert registry.get_sample_value("greenroom_previews_open") == 1.0
    assert registry.get_sample_value("greenroom_previews_closed_total", {"cause": "lease_ended"}) == 1.0

"""What monitoring sees of previews: how many are open, and what closed those that were."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from greenroom.preview.previews import Cause


class PreviewMetrics:
    """Counts, in the registry that is given. An open preview is a way around the hold, so it is worth an alert."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._open = Gauge("greenroom_previews_open", "Previews that are open at this proxy.", registry=registry)
        self._closed = Counter("greenroom_previews_closed", "Previews that ended.", ["cause"], registry=registry)
        for cause in Cause:
            self._closed.labels(cause.replace(" ", "_"))

    def opened(self) -> None:
        """One more is open."""
        self._open.inc()

    def closed(self, cause: str) -> None:
        """One fewer."""
        self._open.dec()
        self._closed.labels(cause.replace(" ", "_")).inc()

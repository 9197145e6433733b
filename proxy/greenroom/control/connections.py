"""How many connections the HTTP port has, and for how long one may keep it waiting.

The rule: whoever can connect can hold connections open, and must keep nobody else out by that. So a request has to be
there within REQUEST_SECONDS, and where there are MAX_CONNECTIONS, the one that has kept us waiting for longest makes
room for the next; only where all are being answered is the next one turned away.
"""

import asyncio
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS: Final = 1000
"""Those of kubelets and scrapers last for milliseconds; of streams there are some hundred at most."""
REQUEST_SECONDS: Final = 10.0
"""A request is a packet or two, and so is a handshake of TLS, which has as long before it. uvicorn itself ends
connections that stay silent for 5 s after an answer."""
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n\r\n"
    b"all connections of this port are being answered: try again\n"
)


class BoundedProtocol(H11Protocol):
    """One connection. `waits_since` is the loop's time at which it began to wait for the request that is to come."""

    waits_since = 0.0
    _looking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """asyncio calls it, with TLS once hands are shaken."""
        super().connection_made(transport)
        self.waits_since = self.loop.time()
        if len(self.connections) > MAX_CONNECTIONS and not self._made_room():
            transport.write(_FULL)
            transport.close()
            return
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio calls it, whoever ended the connection."""
        if self._looking is not None:
            self._looking.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """uvicorn calls it; what was sent ahead it answers from within."""
        self.waits_since = self.loop.time()
        super().on_response_complete()

    @property
    def waits(self) -> bool:
        """Whether it is the peer's turn: a request, or the rest of one, is still to come."""
        cycle = self.cycle
        return cycle is None or cycle.response_complete or (cycle.more_body and not cycle.response_started)

    def give_up(self) -> None:
        """Ends it, whatever the peer may still send. From here on its place is another's."""
        self.connections.discard(self)
        self.transport.abort()

    def _made_room(self) -> bool:
        """Whether another connection could be ended for this one."""
        others = (one for one in self.connections if isinstance(one, BoundedProtocol) and one is not self and one.waits)
        longest = min(others, key=lambda one: one.waits_since, default=None)
        if longest is None:
            return False
        longest.give_up()
        return True

    def _look_later(self) -> None:
        until = self.waits_since + REQUEST_SECONDS if self.waits else self.loop.time() + REQUEST_SECONDS
        self._looking = self.loop.call_at(until, self._look)

    def _look(self) -> None:
        if self.waits and self.loop.time() >= self.waits_since + REQUEST_SECONDS:
            self.give_up()
        else:
            self._look_later()

"""What an HTTP/2 connection is told at its end, read by the `h2` library from a socket of its own."""

import socket

import h2.config
import h2.connection
import h2.events

READ_SECONDS = 20


class Listener:
    """A client that is connected, has shaken hands, and asks for nothing."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=READ_SECONDS)
        self._http2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self._http2.initiate_connection()
        self._socket.sendall(self._http2.data_to_send())
        self.until(h2.events.SettingsAcknowledged)

    def close(self) -> None:
        self._socket.close()

    def until(self, kind: type[h2.events.Event]) -> h2.events.Event | None:
        """The next event of a kind; None where the connection ends before."""
        while data := self._socket.recv(65_536):
            found = [event for event in self._http2.receive_data(data) if isinstance(event, kind)]
            self._socket.sendall(self._http2.data_to_send())
            if found:
                return found[0]
        return None

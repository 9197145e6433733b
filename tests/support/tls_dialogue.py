"""Two ends of TLS in memory, without sockets and event loops."""

import ssl
from contextlib import suppress

MOST_TURNS = 10


def shake_hands(
    server: ssl.SSLContext, client: ssl.SSLContext, name: str, session: ssl.SSLSession | None = None
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends, the server's first, once they have agreed; ssl.SSLError of whichever did not.

    `session` is one that the client would like to take up again.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_hostname=name, session=session),
    )
    waiting = set(ends)
    for _ in range(MOST_TURNS):
        for end in ends[::-1]:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.discard(end)
    assert not waiting
    with suppress(ssl.SSLWantReadError):
        ends[1].read(1)  # A session comes after the handshake.
    return ends

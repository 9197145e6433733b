"""One HTTP request over loopback, for everything that this ring asks over HTTP.

Rule: whatever is answered is an answer; nobody there is status 0, never an exception.
"""

import json
import ssl
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPSHandler

TIMEOUT_SECONDS = 20
# A proxy named in the machine's environment must not come between a test and loopback.
_NO_PROXY = urllib.request.ProxyHandler({})
_OPENER = urllib.request.build_opener(_NO_PROXY)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(url: str, body: object = None, tls: ssl.SSLContext | None = None) -> Answer:
    """GET, or POST of `body` as JSON."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    try:
        opener = _OPENER if tls is None else urllib.request.build_opener(_NO_PROXY, HTTPSHandler(context=tls))
        with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
            return Answer(answer.status, answer.read())
    except HTTPError as error:
        with error:
            return Answer(error.code, error.read())
    except (OSError, HTTPException) as error:
        return Answer(0, repr(error).encode())

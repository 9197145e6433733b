"""Network addresses as settings have them: `host:port`, `[::1]:2389`, and etcd's `http://host:port` or `https://`."""

import ipaddress
from dataclasses import dataclass
from typing import Self
from urllib.parse import SplitResult, urlsplit

LARGEST_PORT = 65535
DEFAULT_CONTROL = "127.0.0.1:2390"
"""Where the control API listens, and where commands look for it, unless they are told otherwise."""


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port; whether one speaks TLS there. Port 0 means: any free one."""

    host: str
    port: int
    is_secure: bool = False

    @classmethod
    def parse(cls, text: str, *, is_secure: bool = False) -> Self:
        """From `host:port`; ValueError in words."""
        host, colon, port = text.rpartition(":")
        if not colon:
            raise ValueError("is no host:port")
        if not host:
            raise ValueError(f"names no host; 127.0.0.1{text} is this machine only, 0.0.0.0{text} every network")
        return cls(_host(host), _port(port), is_secure)

    @classmethod
    def of_url(cls, text: str) -> Self:
        """From etcd's client URL `http://host:port`, or https; ValueError in words for anything more than that."""
        parts = _split(text)
        if parts.scheme not in ("http", "https"):
            raise ValueError("must begin with http:// or https://")
        if parts.username is not None or parts.password is not None:
            raise ValueError("must not carry a user or password")
        if parts.path.rstrip("/") or parts.query or parts.fragment:
            raise ValueError("must end with its port: a path or query means nothing to etcd")
        return cls.parse(parts.netloc, is_secure=parts.scheme == "https")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it. A name that is not `localhost` may stand for anything."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def url(self) -> str:
        """As etcd's clients want it."""
        return f"http{'s' if self.is_secure else ''}://{self}"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _split(text: str) -> SplitResult:
    try:
        return urlsplit(text)
    except ValueError as error:
        raise ValueError(f"is no URL ({error})") from error


def _host(text: str) -> str:
    host = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if ":" in host and host == text:
        raise ValueError("has more than one colon; an IPv6 host stands in brackets, as [::1]:2389")
    if not host or any(character in host for character in "[]/@ \t"):
        raise ValueError(f"{text!r} is no host")
    return host


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > LARGEST_PORT:
        raise ValueError(f"{text!r} is no port from 0 to {LARGEST_PORT}")
    return int(text)

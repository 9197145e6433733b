"""Where a gate of the kind `url` is asked: this machine, in plaintext, unless told otherwise."""

from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import SplitResult, urlsplit

from greenroom.addresses import Address

PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class UrlPlace:
    """A host and a port, and the path with its query, as a request line has it."""

    address: Address
    target: str

    @classmethod
    def of(cls, url: str, *, allow_remote: bool) -> Self:
        """From `http://127.0.0.1:9100/validate`; ValueError in words for anything else."""
        parts = split_url(url, must_begin="http://")
        address = address_in(parts)
        if not allow_remote:
            _check_near(address)
        return cls(address, f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}")


def split_url(url: str, *, must_begin: str) -> SplitResult:
    """The parts of an http or https URL without credentials; ValueError in words, `must_begin` for other schemes."""
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("is no URL: it has characters that none has")
    try:
        parts = urlsplit(url)
        port = parts.port  # Only asking for it says whether it is one.
    except ValueError as error:
        raise ValueError(f"is no URL ({error})") from error
    if parts.scheme not in PORTS:
        raise ValueError(f"must begin with {must_begin}")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not carry a user or password")
    if port == 0:
        raise ValueError("has port 0, where nobody listens")
    return parts


def address_in(parts: SplitResult) -> Address:
    """Where such a URL leads; ValueError where it names no host."""
    host = parts.hostname or ""
    shown = f"[{host}]" if ":" in host else host
    return Address.parse(f"{shown}:{parts.port or PORTS[parts.scheme]}", is_secure=parts.scheme == "https")


def _check_near(address: Address) -> None:
    if not address.is_loopback:
        raise ValueError("is not this machine; --allow-remote lets gates be asked elsewhere")
    if address.is_secure:
        raise ValueError("is not http://; --allow-remote lets gates be asked over https too")

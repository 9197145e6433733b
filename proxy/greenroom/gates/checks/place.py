"""Where a check asks: the base URL of an OpenAI-compatible API, as OPENAI_BASE_URL has it.

The rule: this machine only, unless told otherwise. A check is given its URL by others, and what it sends there may name
models and hold prompts that are nobody else's business.
"""

from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlsplit

from greenroom.addresses import Address

PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Place:
    """A host and port, and the path before `/chat/completions` and the like, such as `/v1`."""

    address: Address
    path: str

    @classmethod
    def of_url(cls, text: str, *, allow_remote: bool) -> Self:
        """From `http://127.0.0.1:8000/v1`, where the path may be missing; ValueError in words for anything else."""
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError as error:
            raise ValueError(f"is no URL ({error})") from error
        if parts.scheme not in PORTS:
            raise ValueError("must begin with http:// or https://")
        if parts.username is not None or parts.password is not None:
            raise ValueError("must not carry a user or password")
        if parts.query or parts.fragment:
            raise ValueError("must end with its path, such as /v1")
        host = parts.hostname or ""
        shown = f"[{host}]" if ":" in host else host
        address = Address.parse(f"{shown}:{port or PORTS[parts.scheme]}", is_secure=parts.scheme == "https")
        if not address.is_loopback and not allow_remote:
            raise ValueError("is not this machine; --allow-remote lets a check ask elsewhere")
        return cls(address, parts.path.rstrip("/") or "/v1")

    def url(self, path: str) -> str:
        """The whole URL, for people."""
        return f"{self.address.url}{self.path}{path}"

"""Where a check asks: the base URL of an OpenAI-compatible API, as OPENAI_BASE_URL has it.

The rule: this machine only, unless told otherwise. A check is given its URL by others, and what it sends there may name
models and hold prompts that are nobody else's business.
"""

from dataclasses import dataclass
from typing import Self

from greenroom.addresses import Address
from greenroom.gates.url_place import address_in, split_url


@dataclass(frozen=True, slots=True)
class Place:
    """A host and port, and the path before `/chat/completions` and the like, such as `/v1`."""

    address: Address
    path: str

    @classmethod
    def of_url(cls, text: str, *, allow_remote: bool) -> Self:
        """From `http://127.0.0.1:8000/v1`, where the path may be missing; ValueError in words for anything else."""
        parts = split_url(text, must_begin="http:// or https://")
        if parts.query or parts.fragment:
            raise ValueError("must end with its path, such as /v1")
        address = address_in(parts)
        if not address.is_loopback and not allow_remote:
            raise ValueError("is not this machine; --allow-remote lets a check ask elsewhere")
        return cls(address, parts.path.rstrip("/") or "/v1")

    def url(self, path: str) -> str:
        """The whole URL, for people."""
        return f"{self.address.url}{self.path}{path}"

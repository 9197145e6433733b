"""The settings of previews: where they listen, and the one that the proxy is started with.

The rule: a preview asks nobody who he is, and shows what is held. So it stays on this machine unless somebody says
that it need not.
"""

from typing import Annotated, Self

from pydantic import BeforeValidator, model_validator
from pydantic_settings import BaseSettings, NoDecode

from greenroom.addresses import LARGEST_PORT, Address
from greenroom.core.selectors import Selector
from greenroom.preview.places import PreviewPlaces
from greenroom.setting_errors import wrong


def _host(given: object) -> object:
    """A host as an address has it: an IPv6 one without brackets, and no port."""
    if not isinstance(given, str):
        return given
    return Address.parse(f"[{given}]:0" if given.count(":") > 1 and not given.startswith("[") else f"{given}:0").host


def _ports(given: object) -> object:
    """The ports of `A-B`, both of them included, or the one of `A`."""
    if not isinstance(given, str):
        return given
    first, dash, last = given.partition("-")
    ends = [first, last] if dash else [first, first]
    if not all(text.isascii() and text.isdigit() and 0 < int(text) <= LARGEST_PORT for text in ends):
        raise ValueError(f"is no range of ports such as 23800-23899, from 1 to {LARGEST_PORT}")
    if int(ends[0]) > int(ends[1]):
        raise ValueError("ends before it begins")
    return tuple(range(int(ends[0]), int(ends[1]) + 1))


def _selector(given: object) -> object:
    """A selector of `model=tiny*,component=backend`."""
    if not isinstance(given, str):
        return given
    globs: dict[str, str] = {}
    for part in given.split(","):
        name, _, glob = part.strip().partition("=")
        if name not in Selector.model_fields or not glob:
            known = ", ".join(Selector.model_fields)
            raise ValueError(f"{part.strip()!r} is no K=GLOB, with K one of {known}")
        if name in globs:
            raise ValueError(f"{name} is given twice")
        globs[name] = glob
    return Selector(**globs)


def _address(given: object) -> object:
    return Address.parse(given) if isinstance(given, str) else given


class PreviewSettings(BaseSettings):
    """Previews listen on a free port of `preview_host`, or one of `preview_ports`; the standing one has its own."""

    preview_host: Annotated[str, BeforeValidator(_host)] = "127.0.0.1"
    preview_ports: Annotated[tuple[int, ...] | None, NoDecode, BeforeValidator(_ports)] = None
    preview_advertise: Annotated[str | None, BeforeValidator(_host)] = None
    preview_listen: Annotated[Address | None, NoDecode, BeforeValidator(_address)] = None
    preview_selector: Annotated[Selector | None, NoDecode, BeforeValidator(_selector)] = None
    insecure_preview: bool = False

    @model_validator(mode="after")
    def _previews_stay_here(self) -> Self:
        for field, place in (("preview_host", Address(self.preview_host, 0)), ("preview_listen", self.preview_listen)):
            if place is not None and not place.is_loopback and not self.insecure_preview:
                wrong(
                    field,
                    "reaches beyond this machine, and a preview shows what is held to whoever connects; "
                    "--insecure-preview allows it anyway",
                )
        return self

    @model_validator(mode="after")
    def _selector_for_standing_one(self) -> Self:
        if self.preview_selector is not None and self.preview_listen is None:
            wrong("preview_selector", "is for --preview-listen, which is not given")
        return self

    @property
    def preview_places(self) -> PreviewPlaces:
        """Where previews that are opened later listen."""
        return PreviewPlaces(self.preview_host, self.preview_advertise, self.preview_ports)

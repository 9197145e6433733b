"""Where each method of the control API is under HTTP: read from the protos' `google.api.http` options. Pure.

The rule: the protos are the one place where a route is written. Of what that option can say only this is understood:
one verb, literal parts, variables such as `{name=instances/*}` whose star is one part, a verb after a colon, and a body
that is one field or everything.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from google.api import annotations_pb2  # type: ignore[import-untyped]  # the package has no types
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

VERBS = ("get", "put", "post", "delete", "patch")
WHOLE_BODY = "*"
_VARIABLE = re.compile(r"\{(?P<field>[a-z_]+)=(?P<pattern>[A-Za-z]+/\*(?:/[A-Za-z]+|/\*)*)\}")
_PART = "[^/:]+"


@dataclass(frozen=True, slots=True)
class Route:
    """One method: `verb` in capitals, `body` the field that the body is, `*` for the whole request, empty for none."""

    method: MethodDescriptor
    verb: str
    path: str
    body: str
    pattern: re.Pattern[str]

    @property
    def is_stream(self) -> bool:
        """Whether the answer is many messages."""
        return self.method.server_streaming

    @property
    def variables(self) -> Mapping[str, str]:
        """The fields that the path gives, each with its pattern, such as `instances/*`."""
        return {found["field"]: found["pattern"] for found in _VARIABLE.finditer(self.path)}


@dataclass(frozen=True, slots=True)
class Found:
    """A route, and what the path says for its variables."""

    route: Route
    given: Mapping[str, str]


def routes_of(service: ServiceDescriptor) -> tuple[Route, ...]:
    """A route for each method; ValueError for one that has none, or one that is not understood."""
    return tuple(_route(method) for method in service.methods)


def find(routes: Iterable[Route], verb: str, path: str) -> Found | frozenset[str]:
    """The route of a request, else the verbs that the path has; none for a path that is nowhere."""
    verbs = set[str]()
    for route in routes:
        if (match := route.pattern.fullmatch(path)) is None:
            continue
        if route.verb == verb:
            return Found(route, match.groupdict())
        verbs.add(route.verb)
    return frozenset(verbs)


def _route(method: MethodDescriptor) -> Route:
    rule = method.GetOptions().Extensions[annotations_pb2.http]
    verb = rule.WhichOneof("pattern")
    if verb not in VERBS or rule.additional_bindings or rule.response_body:
        raise ValueError(f"{method.full_name} has no google.api.http option with one of {', '.join(VERBS)}")
    path = getattr(rule, verb)
    return Route(method, verb.upper(), path, rule.body, _pattern(method, path))


def _pattern(method: MethodDescriptor, path: str) -> re.Pattern[str]:
    """What paths it takes, with a group for each variable."""
    fields, parts, at = method.input_type.fields_by_name, list[str](), 0
    for found in _VARIABLE.finditer(path):
        if found["field"] not in fields:
            raise ValueError(f"{method.full_name}: {path} names {found['field']}, which its request has not")
        inside = re.escape(found["pattern"]).replace(r"\*", _PART)
        parts += [re.escape(path[at : found.start()]), f"(?P<{found['field']}>{inside})"]
        at = found.end()
    rest = path[at:]
    if set(rest) & set("{}*"):
        raise ValueError(f"{method.full_name}: {path} is not understood from {rest!r} on")
    return re.compile("".join((*parts, re.escape(rest))))

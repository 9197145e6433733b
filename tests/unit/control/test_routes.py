"""Routes as the protos say them, and what of them is refused."""

import re
from pathlib import Path

import pytest
from google.api import annotations_pb2
from google.protobuf import descriptor_pb2, descriptor_pool

from greenroom.control.methods import SERVICE
from greenroom.control.routes import Found, find, routes_of

ROUTES = routes_of(SERVICE)


def found(verb: str, path: str) -> tuple[str, dict[str, str]]:
    route = find(ROUTES, verb, path)
    assert isinstance(route, Found)
    return route.route.method.name, dict(route.given)


def test_every_method_has_a_route_of_its_own() -> None:
    assert [route.method.name for route in ROUTES] == [method.name for method in SERVICE.methods]
    assert len({(route.verb, route.path) for route in ROUTES}) == len(ROUTES)


def test_a_path_gives_its_variables() -> None:
    assert found("GET", "/v1/instances") == ("ListInstances", {})
    assert found("GET", "/v1/instances/abc1") == ("GetInstance", {"name": "instances/abc1"})
    assert found("POST", "/v1/instances/abc1:reportVerdict") == ("ReportVerdict", {"name": "instances/abc1"})
    assert found("GET", "/v1/instances:watch") == ("WatchInstances", {})


@pytest.mark.parametrize("path", ["/v1/instances/", "/v1/instances/a/b", "/v1/instances/a:b", "/v1", "/v2/instances"])
def test_other_paths_are_nowhere(path: str) -> None:
    assert find(ROUTES, "GET", path) == frozenset()


def test_another_verb_is_told_those_that_there_are() -> None:
    assert find(ROUTES, "DELETE", "/v1/rolloutHolds") == {"GET", "POST"}


@pytest.mark.parametrize(
    ("verb", "path", "words"),
    [
        ("", "", "has no google.api.http option"),
        ("get", "/v1/{other=things/*}", "names other, which its request has not"),
        ("get", "/v1/{name=**}", "is not understood"),
        ("get", "/v1/{name}", "is not understood"),
    ],
)
def test_an_option_that_is_not_understood_is_refused(verb: str, path: str, words: str) -> None:
    """A method that somebody adds cannot be forgotten, or half understood, over HTTP."""
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
    message = file.message_type.add(name="M")
    message.field.add(
        name="name",
        number=1,
        type=descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
        label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
    )
    service = file.service.add(name="S")
    method = service.method.add(name="Do", input_type=".t.M", output_type=".t.M")
    if verb:
        setattr(method.options.Extensions[annotations_pb2.http], verb, path)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    with pytest.raises(ValueError, match=words):
        routes_of(pool.FindServiceByName("t.S"))


def test_the_paths_that_the_page_on_checks_lists_are_there() -> None:
    page = (Path(__file__).parents[3] / "docs" / "checks.md").read_text()
    listed = re.findall(r"`(GET|POST) (/v1/[^`? ]+)", page)
    assert len(listed) == 6
    for verb, path in listed:
        filled = path.replace("{id}", "abc1").replace("{gate}", "smoke")
        assert isinstance(find(ROUTES, verb, filled), Found), path

"""Requests over HTTP: as strict as those over gRPC."""

import json
from collections.abc import Sequence

import pytest
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from greenroom.control.json_requests import message_of
from greenroom.control.methods import SERVICE
from greenroom.control.routes import Found, find, routes_of
from greenroom.errors import InvalidRequest
from greenroom.pb.control.v1 import control_pb2 as pb

ROUTES = routes_of(SERVICE)
REPORT = "/v1/instances/abc1:reportVerdict"


def read(
    verb: str,
    path: str,
    body: object = None,
    *,
    query: Sequence[tuple[str, str]] = (),
    raw: bytes = b"",
    kind: str = "application/json",
) -> Message:
    found = find(ROUTES, verb, path)
    assert isinstance(found, Found)
    content = raw if body is None else json.dumps(body).encode()
    return message_of(found, GetMessageClass(found.route.method.input_type)(), query, content, kind)


def test_path_and_body_make_the_request() -> None:
    body = {"gate": "smoke", "attempt": 2, "outcome": "OUTCOME_PASSED", "reason": "64 of 64"}
    expected = pb.ReportVerdictRequest(
        name="instances/abc1", gate="smoke", attempt=2, outcome=pb.OUTCOME_PASSED, reason="64 of 64"
    )
    assert read("POST", REPORT, body) == expected
    assert read("POST", REPORT, {**body, "name": "instances/abc1"}) == expected


def test_a_body_may_be_one_field_and_the_query_the_rest() -> None:
    body = {"reason": "incident", "actor": "ann", "ttl": "7200s", "selector": {"model": "tiny*"}}
    request = read("POST", "/v1/rolloutHolds", body, query=[("rolloutHoldId", "freeze")])
    assert isinstance(request, pb.CreateRolloutHoldRequest)
    assert request.rollout_hold_id == "freeze"
    assert (request.rollout_hold.ttl.seconds, request.rollout_hold.selector.model) == (7200, "tiny*")


def test_a_query_is_read_by_either_spelling() -> None:
    said = [("page_size", "5"), ("pageToken", "next"), ("state", "INSTANCE_STATE_HELD")]
    expected = pb.ListInstancesRequest(page_size=5, page_token="next", state=pb.INSTANCE_STATE_HELD)
    assert read("GET", "/v1/instances", query=said) == expected


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ([("colour", "red")], r"'colour' is no parameter of /v1/instances \(they are: page_size"),
        ([("page_size", "many")], "page_size: "),
        ([("page_size", "1"), ("pageSize", "2")], "page_size: is given twice"),
        (
            [("state", "held")],
            "state: 'held' is none of: INSTANCE_STATE_HELD, INSTANCE_STATE_RELEASED, INSTANCE_STATE_REJECTED, "
            "INSTANCE_STATE_WITHDRAWN$",
        ),
    ],
)
def test_a_query_that_is_not_understood_is_refused(query: list[tuple[str, str]], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        read("GET", "/v1/instances", query=query)


@pytest.mark.parametrize(
    ("raw", "kind", "words"),
    [
        (b"{", "application/json", "the body is no greenroom.control.v1.ReportVerdictRequest"),
        (b'{"gate": "a", "gate": "b"}', "application/json", "gate"),
        (b'{"gatee": "a"}', "application/json", "gatee"),
        (b'{"attempt": "x"}', "application/json", "attempt"),
        (b"[]", "application/json", "the body is no"),
        (b"\xff", "application/json", "not UTF-8"),
        (b"[" * 100_000, "application/json", "the body is"),
        (b"{}", "text/plain", "content-type: 'text/plain'"),
        (b"{}", "", "content-type: 'none'"),
        (b'{"name": "instances/abc2"}', "application/json", "is not what the path says: 'instances/abc1'"),
    ],
)
def test_a_body_that_is_not_understood_is_refused(raw: bytes, kind: str, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        read("POST", REPORT, raw=raw, kind=kind)


def test_a_query_beside_a_whole_body_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="'gate' is no parameter"):
        read("POST", REPORT, {}, query=[("gate", "smoke")])


def test_a_body_where_none_belongs_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="takes no body"):
        read("GET", "/v1/instances", {"state": 1})


def test_a_word_that_is_none_of_an_enum_is_told_with_those_that_are() -> None:
    with pytest.raises(InvalidRequest) as wrong:
        read("POST", REPORT, {"gate": "smoke", "outcome": "passed"})
    assert str(wrong.value) == (
        "outcome: 'passed' is none of: OUTCOME_PASSED, OUTCOME_FAILED, OUTCOME_INCONCLUSIVE, OUTCOME_ERROR"
    )
    assert wrong.value.metadata == {"field": "outcome"}
    with pytest.raises(InvalidRequest, match=r"outcome: 'x{80}' is none of"):
        read("POST", REPORT, {"outcome": "x" * 1000})

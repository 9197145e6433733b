"""One chat, whole and streamed: what passes, and what is said of a message in which nothing counts."""

from typing import Any

import pytest

from greenroom.errors import CheckFailed
from greenroom.gates.checks.asking import Asker
from greenroom.gates.checks.chats import TOOL, Part
from greenroom.gates.checks.completion import Completion, check_completion
from greenroom.gates.checks.place import Place
from tests.support.odd_server import OddServer, chat, stream

CALL = {"index": 0, "function": {"name": "report_ready", "arguments": '{"ready": true}'}}


def checked(server: OddServer, *counts: Part, streamed: bool = False) -> str:
    asker = Asker(Place.of_url(server.url, allow_remote=False), 20)
    return check_completion(asker, Completion("tiny", counts, "ready?", 8, streamed))


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("message", "part", "shown"),
    [
        ({"content": "hello"}, Part.CONTENT, "tiny says in its content: 'hello'"),
        ({"reasoning_content": "hm"}, Part.REASONING, "tiny says in its reasoning: 'hm'"),
        ({"tool_calls": [CALL]}, Part.TOOL_CALLS, 'tiny says in its tool-calls: report_ready({"ready": true})'),
    ],
)
def test_a_part_that_counts_passes_alone(message: dict[str, Any], part: Part, shown: str, streamed: bool) -> None:
    with OddServer(lambda _: stream({}, message) if streamed else chat(**message)) as server:
        assert checked(server, part, streamed=streamed) == shown
        assert checked(server, *Part, streamed=streamed) == shown
    assert server.bodies[0].get("stream", False) is streamed


@pytest.mark.parametrize("streamed", [False, True])
def test_what_does_not_count_does_not_pass(streamed: bool) -> None:
    """All of an answer went into the reasoning: users would see an empty message."""
    message = {"reasoning_content": "hm"}
    with (
        OddServer(lambda _: stream(message) if streamed else chat(**message)) as server,
        pytest.raises(
            CheckFailed, match="there is no content in the message of tiny, only reasoning, which does not count here"
        ),
    ):
        checked(server, Part.CONTENT, streamed=streamed)


def test_an_empty_message_does_not_pass() -> None:
    with (
        OddServer(lambda _: chat("")) as server,
        pytest.raises(
            CheckFailed, match="there is no content and no reasoning in the message of tiny, nor anything else"
        ),
    ):
        checked(server, Part.CONTENT, Part.REASONING)


def test_a_tool_is_offered_only_where_its_calls_count() -> None:
    with OddServer(lambda _: chat("hello")) as server:
        checked(server, Part.CONTENT)
        checked(server, Part.CONTENT, Part.TOOL_CALLS)
    assert ["tools" in body for body in server.bodies] == [False, True]
    assert server.bodies[1]["tools"] == [TOOL]

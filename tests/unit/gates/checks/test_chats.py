"""What chats are asked with, and what their answers say: right ones, wrong ones, and shares of streams."""

from typing import Any

import pytest

from greenroom.errors import CheckFailed
from greenroom.gates.checks.chats import Part, Said, event_said, request, together, user, whole


def answer(message: object, **more: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, **more}]}


def call(name: object, arguments: object, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def test_a_request_has_no_sampling() -> None:
    body = request("tiny", user("hello"), 5, seed=3)
    assert body == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 5,
        "temperature": 0,
        "seed": 3,
    }


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        ({"content": "hello"}, [Part.CONTENT]),
        ({"content": " \n"}, []),
        ({"content": "\u200b\ufeff\0"}, []),
        ({"reasoning": "\u200b"}, []),
        ({"content": None}, []),
        ({"content": ["hello"]}, []),
        ({"reasoning_content": "hm"}, [Part.REASONING]),
        ({"reasoning": "hm", "content": ""}, [Part.REASONING]),
        ({"tool_calls": [call("ready", '{"ready": true}')]}, [Part.TOOL_CALLS]),
        ({"tool_calls": [call("ready", "{}"), 7, {"function": 3}]}, [Part.TOOL_CALLS]),
        ({"tool_calls": [call("ready", "{broken")]}, []),
        ({"tool_calls": [call("ready", "[]")]}, []),
        ({"tool_calls": [call(" ", "{}")]}, []),
        ({"tool_calls": "ready"}, []),
        ("hello", []),
        (None, []),
    ],
)
def test_a_part_counts_where_it_says_something(message: object, parts: list[Part]) -> None:
    said = whole(answer(message))
    assert [part for part in Part if said.has(part)] == parts


@pytest.mark.parametrize("nothing", [{}, {"choices": []}, {"choices": None}, {"choices": ["x"]}, [], "text", None, 7])
def test_an_answer_without_a_choice_is_told(nothing: object) -> None:
    with pytest.raises(CheckFailed, match="the answer has no choices: "):
        whole(nothing)


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_an_answer_that_was_given_up_is_told(reason: str) -> None:
    choice = {"message": {"content": "a"}, "delta": {"content": "a"}, "finish_reason": reason}
    for taken in (whole, event_said):
        with pytest.raises(CheckFailed, match=f"the answer was given up: its finish_reason is '{reason}'"):
            taken({"choices": [choice]})


@pytest.mark.parametrize("taken", [whole, event_said])
def test_an_error_at_http_200_is_told(taken: Any) -> None:
    with pytest.raises(CheckFailed, match=r'the answer is an error: \{"message": "out of memory"\}'):
        taken({"error": {"message": "out of memory"}, **answer({"content": "hello"})})
    with pytest.raises(CheckFailed, match=r"the answer is an error: .*out of memory"):
        taken({"object": "error", "message": "out of memory", "code": 500})  # As some engines say it amid a stream.


def test_a_stream_is_put_together() -> None:
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": ""},
        {"reasoning_content": "hm "},
        {"reasoning_content": "yes"},
        {"content": "hel"},
        {"content": "lo"},
        {"tool_calls": [call("ready", "", index=1)]},
        {"tool_calls": [call(None, '{"a"', index=1), call("other", "{}", index=0)]},
        {"tool_calls": [call(None, ": 1}", index=1)]},
        {},
    ]
    events = [{"choices": [{"delta": delta}]} for delta in deltas]
    said = together(event_said(event) for event in [*events, {"choices": [], "usage": {}}])
    assert said == Said("hello", "hm yes", {1: ("ready", '{"a": 1}'), 0: ("other", "{}")})


@pytest.mark.parametrize(
    ("delta", "is_anything"),
    [({"role": "assistant", "content": ""}, False), ({}, False), ({"content": " "}, True), ({"reasoning": "a"}, True)],
)
def test_a_share_without_a_token_is_told_apart(delta: dict[str, Any], is_anything: bool) -> None:
    assert event_said({"choices": [{"delta": delta}]}).is_anything is is_anything


@pytest.mark.parametrize(
    ("said", "token_ids"),
    [
        (answer({"content": "a"}, token_ids=[5, 6]), (5, 6)),
        ({**answer({"content": "a"}), "nvext": {"completion_token_ids": [7]}}, (7,)),
        ({**answer({"content": "a"}), "nvext": 3}, ()),
        (answer({"content": "a"}, token_ids="5"), ()),
        (answer({"content": "a"}, token_ids=[5, "x", 6]), ()),
        (answer({"content": "a"}, token_ids=[True]), ()),
        (answer({"content": "a"}), ()),
    ],
)
def test_token_ids_are_found_where_servers_put_them(said: object, token_ids: tuple[int, ...]) -> None:
    assert whole(said).token_ids == token_ids

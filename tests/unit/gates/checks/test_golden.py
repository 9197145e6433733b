"""Golden prompts: which one is answered otherwise, and where first."""

from typing import Any

import pytest

from greenroom.errors import CheckFailed, CheckInconclusive
from greenroom.gates.checks.asking import Asker
from greenroom.gates.checks.golden import check_golden, first_difference
from greenroom.gates.checks.golden_file import GoldenFile
from greenroom.gates.checks.place import Place
from tests.support.odd_server import Asked, OddServer, chat, told

LONG = "It was the best of times, it was the worst of times, it was the age of wisdom"


def echo(asked: Asked) -> list[bytes]:
    """Answers what the last message says."""
    return chat(asked.body["messages"][-1]["content"])


def checked(server: OddServer, *prompts: dict[str, Any], **more: Any) -> str:
    golden = GoldenFile.model_validate({"prompts": list(prompts), **more})
    return check_golden(Asker(Place.of_url(server.url, allow_remote=False), 20), "tiny", golden)


def failed(*prompts: dict[str, Any], answer: Any = echo, **more: Any) -> str:
    with OddServer(answer) as server, pytest.raises(CheckFailed) as error:
        checked(server, *prompts, **more)
    return str(error.value)


def test_what_is_answered_as_expected_passes() -> None:
    with OddServer(echo) as server:
        told = checked(server, {"prompt": "a", "text": "a"}, {"prompt": "abc", "regex": "b"}, seed=9)
        assert told == "tiny answers all 2 prompts as expected"
        assert checked(server, {"prompt": "a", "text": "a"}) == "tiny answers the one prompt as expected"
    body = server.bodies[0]
    assert (body["temperature"], body["seed"], body["max_tokens"]) == (0, 9, 64)


def test_the_prompt_that_differs_is_named_and_where() -> None:
    said = failed(
        {"prompt": "a", "text": "a"}, {"name": "dickens", "prompt": LONG, "text": LONG.replace("worst", "first")}
    )
    assert said == (
        "prompt 'dickens': differs at character 38: expected …'st of times, it was the first of times, it was t'… "
        "and got …'st of times, it was the worst of times, it was t'…"
    )


@pytest.mark.parametrize(
    ("expected", "got", "at"),
    [("abc", "abc", None), ("abc", "abd", 2), ("ab", "abc", 2), ("abc", "ab", 2), ("", "a", 0), ("x", "", 0)],
)
def test_the_first_difference_is_where_one_of_them_ends_too(expected: str, got: str, at: int | None) -> None:
    assert first_difference(expected, got) == at


def test_an_answer_that_ends_early_is_shown() -> None:
    assert failed({"prompt": "Par", "text": "Paris"}) == (
        "prompt '1': differs at character 4: expected 'Paris' and got 'Par'"
    )


def test_an_answer_that_does_not_match_is_shown() -> None:
    assert failed({"prompt": "Lyon", "regex": "Paris|paris"}) == (
        "prompt '1': the answer does not match Paris|paris: 'Lyon'"
    )


def with_ids(ids: list[int]) -> Any:
    return lambda _: told({"choices": [{"message": {"content": "a"}}], "nvext": {"completion_token_ids": ids}})


def test_token_ids_are_compared_one_by_one() -> None:
    expected = {"prompt": "a", "token_ids": [1, 2, 3, 4, 5, 6, 7, 8, 9]}
    with OddServer(with_ids([1, 2, 3, 4, 5, 6, 7, 8, 9])) as server:
        assert checked(server, expected) == "tiny answers the one prompt as expected"
    said = failed(expected, answer=with_ids([1, 2, 3, 4, 50, 6, 7, 8, 9]))
    assert said == "prompt '1': differs at token 5: expected […, 2, 3, 4, 5, 6, 7, …] and got […, 2, 3, 4, 50, 6, 7, …]"


def test_token_ids_that_nobody_gives_are_inconclusive() -> None:
    with OddServer(echo) as server, pytest.raises(CheckInconclusive, match="the answer has no token ids"):
        checked(server, {"prompt": "a", "token_ids": [1]})


def test_token_ids_are_asked_for_only_where_they_are_expected_and_beside_what_is_asked_else() -> None:
    nvext = {"annotations": ["a"]}
    with OddServer(with_ids([1])) as server:
        checked(server, {"prompt": "a", "text": "a"}, {"prompt": "a", "token_ids": [1]}, extra={"nvext": nvext})
        checked(server, {"prompt": "a", "token_ids": [1]}, token_ids_from="vllm")
    assert [body.get("nvext") for body in server.bodies] == [
        nvext,
        {"extra_fields": ["completion_token_ids"], **nvext},
        None,
    ]
    assert server.bodies[2]["return_token_ids"] is True

"""URLs as gates: 200 passes, anything else is asked again until the time is up. Calls: test_http_call.py."""

import json

import pytest

from greenroom.gates import url_check
from greenroom.gates.http_call import Answer, CallFailed
from greenroom.gates.result import Outcome, Result
from greenroom.gates.url_check import ask_url
from greenroom.gates.url_place import UrlPlace

PLACE = UrlPlace.of("http://127.0.0.1:9/validate", allow_remote=False)


class Posts:
    """Answers what is posted, one after another; `asked` has what that was."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[object] = []

    async def __call__(self, place: UrlPlace, body: bytes) -> Answer:
        assert place == PLACE
        self.asked.append(json.loads(body))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def told(monkeypatch: pytest.MonkeyPatch, posts: Posts, seconds: float = 60) -> Result:
    monkeypatch.setattr(url_check, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(url_check, "post", posts)
    return await ask_url(PLACE, {"GATE": "x"}, seconds, times_out="not over")


async def test_200_passes_and_what_it_says_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    posts = Posts(Answer(200, "all well"))
    assert await told(monkeypatch, posts) == Result(Outcome.PASSED, "all well")
    assert posts.asked == [{"GATE": "x"}]


async def test_it_is_asked_again_until_it_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    posts = Posts(Answer(503, "soon"), CallFailed("nobody listens"), Answer(201, ""), Answer(200, "now"))
    assert await told(monkeypatch, posts) == Result(Outcome.PASSED, "now")
    assert len(posts.asked) == 4


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(302, ""), "127.0.0.1:9 answered 302, a redirect, which is not followed"),
        (Answer(503, "soon"), "127.0.0.1:9 answered 503: soon"),
        (CallFailed("127.0.0.1:9: Connection refused"), "127.0.0.1:9: Connection refused"),
    ],
)
async def test_at_its_time_the_last_answer_is_the_reason(
    monkeypatch: pytest.MonkeyPatch, answer: Answer | Exception, words: str
) -> None:
    """It is up in the pause after the first."""
    result = await told(monkeypatch, Posts(answer), seconds=0)
    assert result == Result(Outcome.FAILED, f"not over; last: {words}")

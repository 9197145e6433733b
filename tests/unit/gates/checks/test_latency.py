"""Latency against limits: what is kept, what is missed, and what says nothing because of noise."""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from greenroom.errors import CheckFailed, CheckInconclusive
from greenroom.gates.checks import latency
from greenroom.gates.checks.asking import Asker
from greenroom.gates.checks.latency import BETWEEN, FIRST, TOGETHER_MS, Latency, Limit, Streamed, check_latency, judged
from greenroom.gates.checks.place import Place
from tests.support.odd_server import Asked, OddServer, response, stream

HOUR_MS = 3_600_000.0


def asked(*limits: Limit, requests: int = 8, concurrency: int = 1, warm_up: int = 0) -> Latency:
    return Latency("tiny", "a story", 8, requests, concurrency, warm_up, limits, 0.5)


def streamed(first_ms: float, *gaps_ms: float) -> Streamed:
    arrivals = [first_ms]
    for gap in gaps_ms:
        arrivals.append(arrivals[-1] + gap)
    return Streamed(arrivals)


STEADY = [streamed(20.0, 5.0, 6.0) for _ in range(8)]
ONE_SLOW = [*STEADY[:7], streamed(900.0, 5.0, 300.0)]
NOISY = [streamed(10.0 * 3**n, 5.0, 5.0) for n in range(8)]


def test_limits_that_are_kept_pass_with_the_figures() -> None:
    said = judged(asked(Limit(FIRST, 99, 20.0), Limit(BETWEEN, 50, 5.0)), STEADY)
    assert said == (
        "8 requests, 1 at once: time to first token p50 20.0 ms, p99 20.0 ms, spread 0.00; "
        "time between tokens p50 5.0 ms, p99 6.0 ms, spread 0.00"
    )


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (Limit(FIRST, 50, 19.9), "time to first token p50 is 20.0 ms, over 19.9 ms"),
        (Limit(FIRST, 99, 899.0), "time to first token p99 is 900.0 ms, over 899 ms"),
        (Limit(BETWEEN, 50, 4.9), "time between tokens p50 is 5.0 ms, over 4.9 ms"),
        (Limit(BETWEEN, 99, 299.0), "time between tokens p99 is 300.0 ms, over 299 ms"),
    ],
)
def test_a_limit_that_is_missed_fails_and_an_outlier_excuses_nothing(limit: Limit, words: str) -> None:
    with pytest.raises(CheckFailed, match=words):
        judged(asked(limit, Limit(FIRST, 50, HOUR_MS)), ONE_SLOW)


def test_a_limit_that_is_missed_amid_noise_says_nothing() -> None:
    with pytest.raises(CheckInconclusive, match=r"p99 is 21870\.0 ms, over 100 ms, but the requests are too far apart"):
        judged(asked(Limit(FIRST, 99, 100.0)), NOISY)


def test_noise_is_no_excuse_for_what_is_steady() -> None:
    """The first tokens are far apart; those after them are slow all alike."""
    with pytest.raises(CheckFailed, match=r"time between tokens p50 is 5\.0 ms, over 4 ms"):
        judged(asked(Limit(FIRST, 99, 100.0), Limit(BETWEEN, 50, 4.0)), NOISY)


def test_noise_only_makes_slower_so_a_limit_that_is_kept_is_kept() -> None:
    assert "8 requests" in judged(asked(Limit(FIRST, 99, HOUR_MS)), NOISY)


def test_answers_of_one_token_say_nothing_of_the_time_between() -> None:
    with pytest.raises(CheckInconclusive, match="so there is no time between tokens"):
        judged(asked(Limit(BETWEEN, 50, 5.0)), [streamed(20.0)] * 8)


def checked(server: OddServer, wanted: Latency) -> str:
    return check_latency(Asker(Place.of_url(server.url, allow_remote=False), 20), wanted)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_each_request_is_asked_once_and_begins_otherwise(concurrency: int) -> None:
    with OddServer(lambda _: stream({"role": "assistant"}, {"content": "once"}, {"content": "upon"})) as server:
        said = checked(server, asked(Limit(FIRST, 99, HOUR_MS), concurrency=concurrency, warm_up=2))
    assert said.startswith(f"8 requests, {concurrency} at once: ")
    prompts = [body["messages"][0]["content"] for body in server.bodies]
    assert prompts[:2] == ["(warm-up 1) a story", "(warm-up 2) a story"]
    assert sorted(prompts[2:]) == [f"({number} of 8) a story" for number in range(1, 9)]
    assert all(body["stream"] for body in server.bodies)


def test_the_time_to_the_first_token_ends_with_a_token() -> None:
    """A role, or an empty share, is nothing that a user sees."""
    with (
        OddServer(lambda _: stream({"role": "assistant", "content": ""}, {})) as server,
        pytest.raises(CheckFailed, match="request 1 of 8: no token came"),
    ):
        checked(server, asked(Limit(FIRST, 99, HOUR_MS)))


def test_a_request_that_fails_fails_the_check_and_ends_it() -> None:
    def answer(request: Asked) -> list[bytes]:
        is_third = "3 of 8" in request.body["messages"][0]["content"]
        return response("overloaded", "503 Busy") if is_third else stream({"content": "a"})

    with OddServer(answer) as server, pytest.raises(CheckFailed, match="503 Busy: overloaded"):
        checked(server, asked(Limit(FIRST, 99, HOUR_MS)))
    assert len(server.asked) == 3


def test_what_is_wrong_with_the_check_itself_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "event_said", lambda event: 1 / 0)
    with OddServer(lambda _: stream({"content": "a"})) as server, pytest.raises(ZeroDivisionError):
        checked(server, asked(Limit(FIRST, 99, HOUR_MS)))


def test_tokens_that_come_together_count_once() -> None:
    """No gap is shorter than what tells two packets apart, however many events are in one."""
    many: Sequence[dict[str, Any]] = [{"content": "a"}] * 300
    with OddServer(lambda _: [b"".join(stream(*many))]) as server:
        said = checked(server, asked(Limit(FIRST, 99, HOUR_MS)))
    between = re.findall(r"time between tokens p50 ([\d.]+) ms", said)
    assert all(float(value) >= TOGETHER_MS for value in between)

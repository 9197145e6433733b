"""The built-in checks against a real frontend and a real worker of Dynamo's.

Its simulated worker answers other tokens each time, whatever the seed; so golden prompts are matched, and what differs
is what is told of.
"""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.support.dynamo import Dynamo, Frontend, Mocker
from tests.e2e.support.store import Store
from tests.support.greenroom import PROGRAM, environment

MODEL = "tiny"
CHECK_SECONDS = 90
WORDS = r"\Aw\d+( w\d+){5}\Z"
"""What six tokens of the model folder's vocabulary look like."""


@dataclass(frozen=True, slots=True)
class Checks:
    """`greenroom check …` as a gate runs it: what to ask comes from the environment."""

    url: str

    def run(self, *arguments: str, model: str = MODEL) -> tuple[int, str]:
        told = {"OPENAI_BASE_URL": f"{self.url}/v1", "DYN_VALIDATION_MODEL": model}
        done = subprocess.run(
            [*PROGRAM, "check", *arguments],
            env=environment() | told,
            capture_output=True,
            text=True,
            timeout=CHECK_SECONDS,
        )
        (line,) = (done.stdout + done.stderr).splitlines()
        return done.returncode, line


@pytest.fixture(scope="module")
def checks(dynamo: Dynamo, store: Store) -> Iterator[Checks]:
    environment = dynamo.environment(store.url)
    with (
        Mocker(dynamo, store, environment, component="backend", model=MODEL),
        Frontend(dynamo, environment) as frontend,
    ):
        frontend.wait_chat(MODEL)
        yield Checks(frontend.url)


def golden(tmp_path: Path, **expected: object) -> str:
    file = tmp_path / "golden.json"
    file.write_text(json.dumps({"max_tokens": 6, "prompts": [{"name": "story", "prompt": "hello", **expected}]}))
    return str(file)


@pytest.mark.parametrize("way", [[], ["--stream"]])
def test_a_completion_is_not_empty(checks: Checks, way: list[str]) -> None:
    code, line = checks.run("completion", "--max-tokens", "8", *way)
    assert code == 0, line
    assert line.startswith("completion passed: tiny says in its content: 'w")


@pytest.mark.parametrize("way", [[], ["--stream"]])
def test_content_counts_for_no_reasoning_and_for_no_tool_call(checks: Checks, way: list[str]) -> None:
    code, line = checks.run("completion", "--max-tokens", "8", "--counts", "reasoning,tool-calls", *way)
    assert (code, line) == (
        1,
        "completion failed: there is no reasoning and no tool-calls in the message of tiny, only content, "
        "which does not count here",
    )


@pytest.mark.parametrize("way", [[], ["--stream"]])
def test_a_model_that_nobody_serves_does_not_pass(checks: Checks, way: list[str]) -> None:
    code, line = checks.run("completion", *way, model="other")
    assert code == 1
    assert "/v1/chat/completions: 404 Not Found: " in line


def test_the_frontend_lists_the_model(checks: Checks) -> None:
    assert checks.run("models") == (0, "models passed: tiny is listed")
    code, line = checks.run("models", model="other")
    assert (code, line.endswith("does not list other; listed: tiny")) == (1, True)


def test_golden_prompts_are_answered_as_they_match(checks: Checks, tmp_path: Path) -> None:
    assert checks.run("golden", golden(tmp_path, regex=WORDS)) == (
        0,
        "golden passed: tiny answers the one prompt as expected",
    )
    code, line = checks.run("golden", golden(tmp_path, text="hello yourself"))
    assert code == 1
    assert line.startswith(
        "golden failed: prompt 'story': differs at character 1: expected 'hello yourself' and got 'w"
    )


def test_token_ids_are_those_of_dynamos_frontend(checks: Checks, tmp_path: Path) -> None:
    """It gives as many as it was asked for; the first is another one than expected."""
    code, line = checks.run("golden", golden(tmp_path, token_ids=[1, 2, 3, 4, 5, 6]))
    assert code == 1
    assert line.startswith("golden failed: prompt 'story': differs at token 1: expected [1, 2, 3, …] and got [")


def test_latency_is_measured(checks: Checks) -> None:
    limits = ("--ttft-p50", "60000", "--ttft-p99", "60000", "--itl-p50", "60000", "--itl-p99", "60000")
    code, line = checks.run("latency", *limits, "--requests", "8", "--concurrency", "2", "--max-tokens", "32")
    assert code == 0, line
    assert line.startswith("latency passed: 8 requests, 2 at once: time to first token p50 ")
    code, line = checks.run("latency", "--ttft-p50", "0.001", "--requests", "8", "--max-spread", "1000")
    assert code == 1
    assert line.startswith("latency failed: time to first token p50 is ")
    code, line = checks.run("latency", "--ttft-p50", "0.001", "--requests", "8", "--max-spread", "0")
    assert code == 75, line

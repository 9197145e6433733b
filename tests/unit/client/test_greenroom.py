"""What the client does beside its calls: patience with verdicts, an end for watches."""

import pytest

from greenroom.client import Outcome, greenroom
from greenroom.client.calls import ControlCalls
from greenroom.client.greenroom import Greenroom, _patiently
from greenroom.errors import ControlError, SettingsError
from greenroom.pb.control.v1 import control_pb2 as pb

AWAY = ControlError("nobody answers", ControlError.UNREACHABLE)
BUSY = ControlError("the record kept changing", "FENCE_CONTENDED")
STALE = ControlError("attempt 1 is stale", "STALE_ATTEMPT")
NOWHERE = "127.0.0.1:1"


class Answers:
    """One after another; the time passes by pauses alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: ControlError | str) -> None:
        self.now, self.asked, self._answers = 0.0, 0, list(answers)
        monkeypatch.setattr(greenroom, "monotonic", lambda: self.now)
        monkeypatch.setattr(greenroom, "sleep", self._pass)

    def __call__(self) -> str:
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, ControlError):
            raise answer
        return answer

    def _pass(self, seconds: float) -> None:
        self.now += seconds


def test_a_verdict_is_said_again_until_it_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers(monkeypatch, AWAY, BUSY, "recorded")
    assert (_patiently(answers, 60.0), answers.asked) == ("recorded", 3)


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers(monkeypatch, AWAY)
    with pytest.raises(ControlError, match="nobody answers"):
        _patiently(answers, 60.0)
    assert 50 < answers.now < 60


def test_what_is_refused_is_not_said_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers(monkeypatch, STALE, "recorded")
    with pytest.raises(ControlError, match="stale"):
        _patiently(answers, 60.0)
    assert answers.asked == 1


def test_a_verdict_is_sent_whatever_its_reason_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model's answer with half a letter in it, quoted: the verdict was an error of Python's own, and never sent."""
    sent: list[tuple[str, float | None]] = []

    def report_verdict(calls: ControlCalls, request: pb.ReportVerdictRequest) -> pb.ReportVerdictResponse:
        sent.append((request.reason, calls.deadline))
        return pb.ReportVerdictResponse()

    monkeypatch.setattr(ControlCalls, "report_verdict", report_verdict)
    with Greenroom(NOWHERE) as client:
        client.report("7f", "smoke", Outcome.FAILED, attempt=1, reason="x" * 300_000 + "answers \ud83d")
    [(reason, deadline)] = sent
    assert (len(reason), reason[-10:]) == (2048, "xanswers ?")
    assert deadline is None, "the last time that it is said has its whole time: cut short it says nothing of why"


def test_what_is_given_wrongly_is_told_in_the_words_of_arguments() -> None:
    with pytest.raises(SettingsError, match=r"^address 'https://a:1': needs ca_file"):
        Greenroom("https://a:1")
    with pytest.raises(SettingsError, match=r"^token: is no token"):
        Greenroom(NOWHERE, token="two words")


def test_the_environment_is_obeyed_where_it_is_asked_and_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GREENROOM_CONTROL", "nowhere")
    with pytest.raises(SettingsError, match=r"^GREENROOM_CONTROL 'nowhere': is no host:port"):
        Greenroom.from_environment()
    with Greenroom() as client:
        assert repr(client) == "Greenroom(127.0.0.1:2390)"


def test_a_watch_on_a_client_that_is_closed_just_ends() -> None:
    with Greenroom(NOWHERE) as client:
        watch = client.watch()
    assert list(watch) == []


def test_an_unknown_outcome_is_a_mistake_of_the_program() -> None:
    with Greenroom(NOWHERE) as client, pytest.raises(ValueError, match="'pass' is not a valid Outcome"):
        client.report("a1", "smoke", "pass", attempt=1)  # type: ignore[arg-type]

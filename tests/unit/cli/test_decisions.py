"""People's decisions: what was typed, and what is said of the answer."""

import pytest

from greenroom.cli.decisions import (
    _typed,
    dropped_words,
    rejected_words,
    released_words,
    retried_words,
    revoked_words,
    withdrawn_words,
)
from greenroom.cli.main import main
from greenroom.errors import SettingsError
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.shown import shown

ID = "6177a228983c0b2b"
CONTROL = " --control a:9"
RETRY = f"greenroom retry {ID} --reason 'why'{CONTROL}"


def test_an_override_that_released() -> None:
    answer = pb.ReleaseInstanceResponse(instance=shown(state="RELEASED"), decision=pb.DECISION_RELEASED)
    assert released_words(answer, CONTROL) == (
        f"override of {ID}: RELEASED, its cards are public",
        f"take it back: greenroom withdraw {ID} --reason 'why'{CONTROL}",
    )


def test_an_override_that_a_rollout_hold_stops() -> None:
    instance = shown(gates={"smoke": "OVERRIDDEN"}, rollout_hold="night")
    answer = pb.ReleaseInstanceResponse(instance=instance, decision=pb.DECISION_QUEUED)
    assert released_words(answer, CONTROL) == (
        f"override of {ID}: every gate is set aside until a card comes or changes, and it waits: "
        "rollout hold night by ann: incident",
        f"next: greenroom rollout-hold lift night{CONTROL}",
    )


def test_a_rejection_and_how_it_is_undone() -> None:
    answer = pb.RejectInstanceResponse(instance=shown(state="REJECTED"), decision=pb.DECISION_REJECTED)
    assert rejected_words(answer, CONTROL) == (
        f"reject of {ID}: REJECTED, it stays out of routing, whatever its gates say",
        f"bring it back: {RETRY}",
    )
    answer.instance.hold = pb.HOLD_HEALTH
    assert "REJECTED, what is held of it stays out of routing" in rejected_words(answer, CONTROL)[0]
    answer.instance.gated_keys[0].public = True
    assert "its rule holds nothing back, so its cards stay public" in rejected_words(answer, CONTROL)[0]


def test_a_withdrawal_and_how_it_is_undone() -> None:
    answer = pb.WithdrawInstanceResponse(instance=shown(state="WITHDRAWN"), decision=pb.DECISION_WITHDRAWN)
    assert withdrawn_words(answer, CONTROL) == (
        f"withdraw of {ID}: WITHDRAWN, its cards are held again, whatever its gates say",
        f"bring it back: {RETRY}",
    )


def retried(decision: "pb.Decision.ValueType", instance: pb.Instance) -> tuple[str, str]:
    return retried_words(pb.RetryGatesResponse(instance=instance, decision=decision), CONTROL)


@pytest.mark.parametrize("state", ["HELD", "WITHDRAWN"])
def test_a_retry_names_the_attempts_that_are_open(state: str) -> None:
    decision = pb.DECISION_HELD if state == "HELD" else pb.DECISION_WITHDRAWN
    said, further = retried(decision, shown(state=state, gates={"a": "PENDING", "b": "PASSED", "c": "PENDING"}))
    assert said == f"retry of {ID}: {state}, to be decided: a (attempt 2), c (attempt 2)"
    assert further == f"next: greenroom verdict {ID} a passed --attempt 2 --reason 'why'{CONTROL}"


def test_a_retry_of_one_gate_while_another_has_failed() -> None:
    said, further = retried(pb.DECISION_REJECTED, shown(state="REJECTED", gates={"a": "PENDING", "b": "FAILED"}))
    again = RETRY.replace(ID, f"{ID} b", 1)
    assert (said, further) == (f"retry of {ID}: still REJECTED, for b failed", f"next: {again}")


def test_a_retry_of_one_whose_gates_had_passed() -> None:
    out = retried(pb.DECISION_RELEASED, shown(state="RELEASED", gates={"smoke": "PASSED"}))
    assert out[0] == f"retry of {ID}: RELEASED, for its gates had passed already"
    for state, decision in (("HELD", pb.DECISION_QUEUED), ("WITHDRAWN", pb.DECISION_WITHDRAWN)):
        said, further = retried(decision, shown(state=state, gates={"smoke": "PASSED"}, rollout_hold="night"))
        assert said.endswith("it waits: rollout hold night by ann: incident")
        assert further == f"next: greenroom rollout-hold lift night{CONTROL}"


def test_a_drop_says_what_it_waits_for() -> None:
    answer = pb.DropCardsResponse(instance=shown(), decision=pb.DECISION_DROPPED)
    assert dropped_words(answer, CONTROL) == (
        f"drop of {ID}: what was held of it is forgotten; it is HELD, and waits for its worker to register",
        f"look at it: greenroom instance {ID}{CONTROL}",
    )


def test_the_end_of_a_lease_says_what_becomes_of_the_worker() -> None:
    answer = pb.RevokeLeaseResponse(instance=shown(), decision=pb.DECISION_LEASE_REVOKED)
    said, further = revoked_words(answer, CONTROL)
    assert said.startswith(f"revoke-lease of {ID}: etcd removes all its keys, and its worker has to start again")
    assert further == f"see who is there: greenroom instances{CONTROL}"


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "--reason '': is blank"), (" \n", r"--reason ' \\n': is blank"), ("caf\udce9", "--reason: is not UTF-8")],
)
def test_what_nobody_could_read_later_is_not_sent(text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        _typed("--reason", text)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["release", "0b2b", "--reason", "x"], 2, "--override is not given"),
        (["release", "0b2b", "--override"], 2, "Missing option '--reason'"),
        (["withdraw", "--reason", "x"], 2, "ID is not given"),
        (["reject", "", "--reason", "x"], 2, "ID '': is empty"),
        (["retry", "--reason", "x"], 2, "ID is not given"),
        (["retry", "", "smoke", "--reason", "x"], 2, "ID '': is empty"),
        (["drop", "0b2b", "--reason", " "], 2, "--reason ' ': is blank"),
        (["revoke-lease", "0b2b", "--reason", "x", "--actor", ""], 2, "--actor '': is blank"),
        (["retry", "smoke", "--model", "tiny", "--reason", "x"], 1, "no control API answers"),
    ],
)
def test_what_is_typed_wrongly(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GREENROOM_CONTROL", "127.0.0.1:1")
    assert main(arguments) == code
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert said in captured.err

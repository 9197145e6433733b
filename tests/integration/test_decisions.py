"""People's decisions, through the control API and the command line, on one proxy: what they do, and what is refused.

Whatever is refused changes nothing, which etcd's revision shows.
"""

import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import NamedTuple

import grpc
import pytest

from greenroom.cli.main import main
from greenroom.client.callers import myself
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.control import CALL_SECONDS, error_reason
from tests.support.endpoints import Proxy
from tests.support.greenroom import GATE_ARGUMENTS, GATES
from tests.support.http import ask
from tests.support.waiting import wait_for
from tests.support.workers import Worker

DECISIONS = ("ReleaseInstance", "RejectInstance", "WithdrawInstance", "RetryGates", "DropCards")
COMMANDS = {
    "ReleaseInstance": ("release", "--override"),
    "RejectInstance": ("reject",),
    "WithdrawInstance": ("withdraw",),
    "RetryGates": ("retry",),
    "DropCards": ("drop",),
    "RevokeLease": ("revoke-lease",),
}


class Done(NamedTuple):
    """What a command came to, run in this process: tests/integration/test_cli.py shows that others are no different."""

    code: int
    out: str
    error: str


def cli(proxy: Proxy, *arguments: str) -> Done:
    out, error = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(error):
        code = main([*arguments, "--control", proxy.greenroom.control])
    return Done(code, out.getvalue(), error.getvalue())


def must(proxy: Proxy, *arguments: str) -> str:
    done = cli(proxy, *arguments)
    assert done.code == 0, done
    return done.out


def decided(proxy: Proxy, rpc: str, worker: Worker, **fields: object) -> str:
    """What a decision led to. A release is meant unless the test says otherwise."""
    more = {"override": True} if rpc == "ReleaseInstance" else {}
    answer = proxy.control.decide(rpc, worker.instance, **{**more, **fields})
    return pb.Decision.Name(answer.decision).removeprefix("DECISION_")


def typed(proxy: Proxy, rpc: str, worker: Worker, *words: str, reason: str = "because") -> list[str]:
    """What the command of a decision printed: what happened, and what helps next."""
    known(proxy, worker)
    name, *options = COMMANDS[rpc]
    arguments = (name, worker.instance, *words, *options, "--reason", reason, "--actor", "ann")
    return must(proxy, *arguments).splitlines()


def known(proxy: Proxy, worker: Worker) -> None:
    """Commands choose from the list, which follows etcd by a watch."""
    wait_for(lambda: worker.instance in {one.id for one in proxy.control.instances()}, describe="it is listed")


def counted(proxy: Proxy, kind: str) -> float:
    name = f'greenroom_decisions_total{{kind="{kind}"}} '
    lines = ask(f"{proxy.greenroom.http_url}/metrics").body.decode().splitlines()
    (line,) = [line for line in lines if line.startswith(name)]
    return float(line.removeprefix(name))


def last_line(proxy: Proxy, worker: Worker, event: str) -> pb.Transition:
    """The newest line of its trail about that event."""
    trail = proxy.control.instance(worker.instance).transitions
    return [line for line in trail if line.event == event][-1]


def why_not(proxy: Proxy, worker: Worker) -> tuple[str, str]:
    """The reason and the message of its first condition."""
    condition = proxy.control.instance(worker.instance).conditions[0]
    return condition.reason, condition.message


def test_an_override_releases_what_a_gate_rejected_and_is_told_counted_and_kept(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    proxy.control.verdict(worker.instance, "smoke", "failed")
    before = counted(proxy, "override")
    said, further = typed(proxy, "ReleaseInstance", worker, reason="the check is wrong")
    assert said == f"override of {worker.instance}: RELEASED, its cards are public"
    assert further.startswith(f"take it back: greenroom withdraw {worker.instance} --reason 'why' --control ")
    assert proxy.shown(worker) == [worker.card_key]
    gates = proxy.control.instance(worker.instance).gates
    assert {(gate.state, gate.reporter, gate.reason) for gate in gates} == {
        (pb.GATE_STATE_OVERRIDDEN, "ann", "the check is wrong")
    }
    line = last_line(proxy, worker, "override")
    assert (line.actor, line.reason) == ("ann", "the check is wrong")
    assert counted(proxy, "override") == before + 1
    logged = [line for line in proxy.greenroom.log().splitlines() if "decision.taken" in line][-1]
    for word in (worker.instance, "kind=override", "actor=ann", "the check is wrong", "leaves=released"):
        assert word in logged


def test_an_override_under_a_rollout_hold_waits_for_its_lifting(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    proxy.control.hold_rollout("night")
    said, further = typed(proxy, "ReleaseInstance", worker)
    assert "every gate is set aside until a card comes or changes, and it waits: rollout hold night by tests" in said
    assert further.startswith("next: greenroom rollout-hold lift night")
    assert proxy.shown(worker) == []
    proxy.control.lift_rollout("night")
    wait_for(lambda: proxy.shown(worker) == [worker.card_key], describe="it is released")


def test_what_a_person_rejected_stays_out_until_a_person_brings_it_back(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    said, further = typed(proxy, "RejectInstance", worker, reason="wrong weights")
    assert said == f"reject of {worker.instance}: REJECTED, it stays out of routing, whatever its gates say"
    assert [proxy.control.verdict(worker.instance, gate, "passed") for gate in GATES] == ["REJECTED", "REJECTED"]
    assert worker.register_lora().succeeded
    assert [proxy.control.verdict(worker.instance, gate, "passed") for gate in GATES] == ["REJECTED", "REJECTED"]
    assert proxy.shown(worker) == []
    assert why_not(proxy, worker) == ("RejectedByPerson", "ann rejected it; a retry or override ends that")
    page = must(proxy, "instance", worker.instance)
    assert "is REJECTED (reject: wrong weights)" in page
    assert "ann rejected it; a retry or override ends that" in page
    retry = f"greenroom retry {worker.instance} --reason 'why' --control {proxy.greenroom.control}"
    assert retry in page
    assert further == f"bring it back: {retry}"
    assert decided(proxy, "RetryGates", worker) == "RELEASED"
    assert proxy.shown(worker) == [worker.card_key, worker.lora_key()]


def test_what_a_person_withdrew_is_held_again_and_stays_out_until_a_person_brings_it_back(proxy: Proxy) -> None:
    """Its worker goes on as if nothing had happened: its edits are taken, and shown to nobody."""
    worker = proxy.released_worker()
    said, further = typed(proxy, "WithdrawInstance", worker, reason="bad answers")
    assert said == f"withdraw of {worker.instance}: WITHDRAWN, its cards are held again, whatever its gates say"
    assert proxy.held(worker) == [worker.card_key]
    edited = worker.card(taints=["gold"])
    assert worker.swap(edited, worker.read().mod_revision).succeeded
    assert worker.register_lora().succeeded
    assert worker.read().value == edited
    proxy.control.pass_gates(worker.instance)
    assert proxy.shown(worker) == []
    assert proxy.control.state(worker.instance) == "WITHDRAWN"
    assert why_not(proxy, worker) == ("WithdrawnByPerson", "ann withdrew it; a retry or override ends that")
    assert "a person's retry or override" in must(proxy, "instances")
    assert further.startswith(f"bring it back: greenroom retry {worker.instance}")
    assert typed(proxy, "RetryGates", worker)[0].endswith("RELEASED, for its gates had passed already")
    assert proxy.shown(worker) == [worker.card_key, worker.lora_key()]
    assert proxy.public.get(worker.card_key).value == edited


def test_a_withdrawn_one_that_is_retried_first_is_released_by_its_gates(proxy: Proxy) -> None:
    worker = proxy.released_worker()
    assert decided(proxy, "WithdrawInstance", worker) == "WITHDRAWN"
    said, further = typed(proxy, "RetryGates", worker)
    assert said == f"retry of {worker.instance}: WITHDRAWN, to be decided: latency (attempt 3), smoke (attempt 3)"
    assert further.startswith(f"next: greenroom verdict {worker.instance} latency passed --attempt 3")
    assert proxy.control.pass_gates(worker.instance) == "RELEASED"
    assert proxy.shown(worker) == [worker.card_key]


def test_a_withdrawn_one_is_brought_back_by_an_override_too(proxy: Proxy) -> None:
    worker = proxy.released_worker()
    decided(proxy, "WithdrawInstance", worker)
    assert decided(proxy, "ReleaseInstance", worker) == "RELEASED"
    assert proxy.shown(worker) == [worker.card_key]


def test_a_retry_is_of_the_gates_that_are_named_and_others_keep_it_rejected(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    for gate in GATES:
        proxy.control.verdict(worker.instance, gate, "failed")
    said, further = typed(proxy, "RetryGates", worker, "smoke")
    assert said == f"retry of {worker.instance}: still REJECTED, for latency failed"
    assert further.startswith(f"next: greenroom retry {worker.instance}")
    assert [proxy.control.attempt(worker.instance, gate) for gate in ("smoke", "latency")] == [2, 1]
    assert decided(proxy, "RetryGates", worker, gates=["latency"]) == "HELD"
    assert proxy.control.pass_gates(worker.instance) == "RELEASED"


def test_what_was_dropped_is_never_published_and_its_worker_may_register_anew(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    worker.register_lora()
    said, _ = typed(proxy, "DropCards", worker)
    assert said == (
        f"drop of {worker.instance}: what was held of it is forgotten; it is HELD, and waits for its worker to register"
    )
    assert proxy.held(worker) == []
    assert worker.client.get(worker.card_key) is None
    proxy.control.pass_gates(worker.instance)
    assert proxy.shown(worker) == []
    assert worker.register().succeeded
    assert proxy.control.pass_gates(worker.instance) == "RELEASED"
    assert proxy.shown(worker) == [worker.card_key]
    assert last_line(proxy, worker, "drop").actor == "ann"


def test_a_lease_is_ended_only_by_a_proxy_that_was_told_so(proxy: Proxy, launch_proxy: Callable[..., Proxy]) -> None:
    worker, other = proxy.released_worker(), proxy.held_worker()
    known(proxy, worker)
    with pytest.raises(grpc.RpcError) as off:
        proxy.control.decide("RevokeLease", worker.instance)
    assert (off.value.code(), error_reason(off.value)) == (grpc.StatusCode.PERMISSION_DENIED, "REVOKE_LEASE_OFF")
    refused = cli(proxy, "revoke-lease", worker.instance, "--reason", "start anew")
    assert (refused.code, refused.out) == (1, "")
    assert "start it with --allow-revoke-lease" in refused.error
    assert proxy.shown(worker) == [worker.card_key]

    allowing = launch_proxy(proxy.etcd, arguments=(*GATE_ARGUMENTS, "--allow-revoke-lease"))
    with proxy.public.watch(b"\x01greenroom/instances/" + worker.instance.encode()) as log:
        said, further = typed(allowing, "RevokeLease", worker, reason="start anew")
        log.wait_events(2)
    assert said.startswith(f"revoke-lease of {worker.instance}: etcd removes all its keys")
    assert further.startswith("see who is there: greenroom instances")
    noted = json.loads(log.events[0].kv.value)["transitions"][-1]
    assert (noted["event"], noted["actor"], noted["reason"]) == ("revoke lease", "ann", "start anew")
    assert proxy.client.time_to_live(worker.lease).TTL == -1
    assert proxy.shown(worker) == []
    assert counted(allowing, "revoke-lease") == 1
    assert proxy.held(other) == [other.card_key]
    with pytest.raises(grpc.RpcError) as gone:
        allowing.control.decide("RevokeLease", worker.instance)
    assert error_reason(gone.value) == "UNKNOWN_INSTANCE"


@pytest.mark.parametrize("rpc", DECISIONS)
@pytest.mark.parametrize(
    ("fields", "code", "reason", "says"),
    [
        ({"name": "instances/7fffffffffffffff"}, "NOT_FOUND", "UNKNOWN_INSTANCE", "or its lease ended"),
        ({"name": "instances/0X1"}, "INVALID_ARGUMENT", "INVALID_REQUEST", "lease id in lower-case hexadecimal"),
        ({"name": "abc"}, "INVALID_ARGUMENT", "INVALID_REQUEST", "is not of the form 'instances/{id}'"),
        ({"reason": "  "}, "INVALID_ARGUMENT", "INVALID_REQUEST", "reason: is required"),
        ({"reason": "x" * 2049}, "INVALID_ARGUMENT", "INVALID_REQUEST", "has 2049 bytes, and may have 2048: shorten"),
        ({"actor": ""}, "INVALID_ARGUMENT", "INVALID_REQUEST", "actor: is required: who decides"),
        ({"actor": "greenroom"}, "INVALID_ARGUMENT", "INVALID_REQUEST", "say who it really is"),
    ],
    ids=["unknown", "malformed", "no name", "blank", "too long", "nobody", "the proxy"],
)
def test_a_mistake_is_answered_with_what_to_do_and_changes_nothing(
    proxy: Proxy, rpc: str, fields: dict[str, str], code: str, reason: str, says: str
) -> None:
    worker = proxy.released_worker() if rpc == "WithdrawInstance" else proxy.held_worker()
    before = proxy.public.revision()
    with pytest.raises(grpc.RpcError) as wrong:
        decided(proxy, rpc, worker, **fields)
    assert (wrong.value.code().name, error_reason(wrong.value)) == (code, reason)
    assert says in wrong.value.details()
    assert proxy.public.revision() == before


STATES: dict[str, Callable[[Proxy], Worker]] = {
    "HELD": lambda proxy: proxy.held_worker(),
    "RELEASED": lambda proxy: proxy.released_worker(),
}


@pytest.mark.parametrize(
    ("state", "rpc", "says"),
    [
        ("HELD", "WithdrawInstance", "it was not released; reject it"),
        ("RELEASED", "ReleaseInstance", "its cards are public already"),
        ("RELEASED", "RejectInstance", "withdraw it"),
        ("RELEASED", "RetryGates", "a withdrawal takes it back"),
        ("RELEASED", "DropCards", "nothing of it is held; withdraw it"),
    ],
)
def test_a_wrong_state_is_answered_with_what_can_be_done_instead(proxy: Proxy, state: str, rpc: str, says: str) -> None:
    worker = STATES[state](proxy)
    before = proxy.public.revision()
    with pytest.raises(grpc.RpcError) as wrong:
        decided(proxy, rpc, worker)
    assert (wrong.value.code(), error_reason(wrong.value)) == (grpc.StatusCode.FAILED_PRECONDITION, "WRONG_STATE")
    assert f"the instance is {state}; " in wrong.value.details()
    assert says in wrong.value.details()
    assert proxy.public.revision() == before


def test_an_unknown_gate_a_forgotten_override_and_a_text_that_is_none_change_nothing(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    before = proxy.public.revision()
    with pytest.raises(grpc.RpcError) as unknown:
        decided(proxy, "RetryGates", worker, gates=["smoke", "nope"])
    assert error_reason(unknown.value) == "UNKNOWN_GATE"
    assert "its gates are: latency, smoke" in unknown.value.details()
    with pytest.raises(grpc.RpcError) as forgotten:
        decided(proxy, "ReleaseInstance", worker, override=False)
    assert "override: must be true" in forgotten.value.details()
    reject = proxy.control.channel.unary_unary("/greenroom.control.v1.Control/RejectInstance")
    name = f"instances/{worker.instance}".encode()
    with pytest.raises(grpc.RpcError) as no_text:
        reject(b"\x0a" + bytes([len(name)]) + name + b"\x12\x01\xff\x1a\x01a", timeout=CALL_SECONDS)
    assert "a text in it is not UTF-8" in no_text.value.details()
    assert proxy.public.revision() == before


def test_commands_that_cannot_be_are_one_line_and_change_nothing(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    known(proxy, worker)
    before = proxy.public.revision()
    for arguments, said in (
        (("withdraw", worker.instance, "--reason", "x"), "it was not released; reject it, which keeps it out"),
        (("retry", worker.instance, "nope", "--reason", "x"), "its gates are: latency, smoke"),
        (("reject", "zzz", "--reason", "x"), f"no instance has id 'zzz'; there are: {worker.instance}"),
        (("drop", worker.instance, "--reason", "x" * 2049), "has 2049 bytes, and may have 2048: shorten it"),
    ):
        done = cli(proxy, *arguments)
        assert (done.code, done.out) == (1, "")
        (line,) = done.error.splitlines()
        assert line.startswith("greenroom: ")
        assert said in line
    assert proxy.public.revision() == before


def test_who_decided_is_the_user_who_typed_it(proxy: Proxy) -> None:
    worker = proxy.held_worker(model="tiny")
    known(proxy, worker)
    must(proxy, "reject", "--model", "tiny", "--reason", "by model")
    rejecter = last_line(proxy, worker, "reject").actor
    assert "@" in rejecter
    must(proxy, "retry", "smoke", "--model", "tiny", "--reason", "one gate")
    assert last_line(proxy, worker, "retry smoke").actor == rejecter


def test_a_token_at_a_proxy_that_asks_for_none_does_no_harm(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was left to the token to say who decides, and so the proxy asked for --actor."""
    worker = proxy.held_worker()
    known(proxy, worker)
    monkeypatch.setenv("GREENROOM_TOKEN", "of-another-proxy")
    assert must(proxy, "reject", worker.instance, "--reason", "bad").startswith(f"reject of {worker.instance}")
    assert last_line(proxy, worker, "reject").actor == myself()


def test_an_override_of_what_was_dropped_is_refused_and_its_page_says_that_it_has_no_card(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    known(proxy, worker)
    typed(proxy, "DropCards", worker)
    page = must(proxy, "instance", worker.instance)
    assert "Why it is not released\n  no card is registered at the moment\n" in page
    wait_for(lambda: "a card and " in must(proxy, "instances"), describe="the list says so too")
    with pytest.raises(grpc.RpcError) as refused:
        decided(proxy, "ReleaseInstance", worker)
    assert error_reason(refused.value) == "WRONG_STATE"
    assert "no card of the instance waits to be released" in refused.value.details()  # type: ignore[attr-defined]

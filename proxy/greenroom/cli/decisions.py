"""What people decide by hand: `greenroom release`, `reject`, `withdraw`, `retry`, `drop`, `revoke-lease`.

The rule: each says who decides and why, what that led to, and the command that helps next.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

import typer

from greenroom.addresses import DEFAULT_CONTROL
from greenroom.cli.choose import Wanted, choose
from greenroom.cli.client import ControlClient
from greenroom.cli.instance_details import next_steps
from greenroom.cli.options import (
    ByAddress,
    ByModel,
    Control,
    TokenFile,
    connect,
    control_again,
    in_own_name,
    readable,
    say,
)
from greenroom.cli.words import OPEN, decision, gate_word, state_word, stays_out, unmet
from greenroom.errors import SettingsError
from greenroom.pb.control.v1 import control_pb2 as pb

Id = Annotated[str | None, typer.Argument(metavar="ID", help="Any part of the id that no other instance has.")]
Words = Annotated[
    list[str] | None, typer.Argument(metavar="ID [GATE…]", help="Without a GATE all that have not passed.")
]
Why = Annotated[str, typer.Option("--reason", metavar="TEXT", help="All that others will see of why; at most 2 KiB.")]
Actor = Annotated[
    str | None,
    typer.Option("--actor", metavar="NAME", help="Who decides. (default: your token's caller, or user@host)"),
]
Override = Annotated[bool, typer.Option("--override", help="Set aside every gate that has not passed.")]

Answer = TypeVar("Answer")
Fields = Mapping[str, Any]


def release(
    reason: Why,
    instance_id: Id = None,
    override: Override = False,
    actor: Actor = None,
    address: ByAddress = None,
    model: ByModel = None,
    control: Control = DEFAULT_CONTROL,
    token_file: TokenFile = None,
) -> None:
    """Releases an instance against its gates. A rollout hold still stops it."""
    if not override:
        raise SettingsError(
            "--override is not given: gates that pass release by themselves; by hand an instance is released against "
            "those that have not"
        )

    def send(client: ControlClient, fields: Fields) -> pb.ReleaseInstanceResponse:
        return client.release_instance(pb.ReleaseInstanceRequest(override=True, **fields))

    answer = _decided(control, token_file, Wanted(instance_id, address, model), reason, actor, send)
    say(*released_words(answer, control_again(control, token_file)))


def retry(
    reason: Why,
    words: Words = None,
    actor: Actor = None,
    address: ByAddress = None,
    model: ByModel = None,
    control: Control = DEFAULT_CONTROL,
    token_file: TokenFile = None,
) -> None:
    """Opens new attempts of gates, and brings back what a person rejected or withdrew, for its gates to decide.

    With --address or --model there is no ID before the gates.
    """
    given = list(words or ())
    text = given.pop(0) if given and address is None and model is None else None

    def send(client: ControlClient, fields: Fields) -> pb.RetryGatesResponse:
        return client.retry_gates(pb.RetryGatesRequest(gates=map(readable, given), **fields))

    answer = _decided(control, token_file, Wanted(text, address, model), reason, actor, send)
    say(*retried_words(answer, control_again(control, token_file)))


def released_words(answer: pb.ReleaseInstanceResponse, control: str) -> tuple[str, str]:
    """What an override led to, and what helps next."""
    instance = answer.instance
    if answer.decision == pb.DECISION_RELEASED:
        again = f"take it back: {decision('withdraw', instance, control)}"
        return f"override of {instance.id}: RELEASED, its cards are public", again
    waits = f"every gate is set aside until a card comes or changes, and it waits: {unmet(instance)}"
    return f"override of {instance.id}: {waits}", _next(instance, control)


def rejected_words(answer: pb.RejectInstanceResponse, control: str) -> tuple[str, str]:
    """What a rejection means, and how it is undone."""
    instance = answer.instance
    return f"reject of {instance.id}: REJECTED, {stays_out(instance)}, whatever its gates say", _back(instance, control)


def withdrawn_words(answer: pb.WithdrawInstanceResponse, control: str) -> tuple[str, str]:
    """What a withdrawal means, and how it is undone."""
    said = "WITHDRAWN, its cards are held again, whatever its gates say"
    return f"withdraw of {answer.instance.id}: {said}", _back(answer.instance, control)


def retried_words(answer: pb.RetryGatesResponse, control: str) -> tuple[str, str]:
    """Where a retry leaves the instance, and what helps next."""
    instance = answer.instance
    return f"retry of {instance.id}: {_retried(answer)}", _next(instance, control)


def dropped_words(answer: pb.DropCardsResponse, control: str) -> tuple[str, str]:
    """What a drop means, and where to see what the worker registers instead."""
    instance = answer.instance
    said = f"what was held of it is forgotten; it is {state_word(instance.state)}, and waits for its worker to register"
    return f"drop of {instance.id}: {said}", f"look at it: greenroom instance {instance.id}{control}"


def revoked_words(answer: pb.RevokeLeaseResponse, control: str) -> tuple[str, str]:
    """What the end of a lease means, and where to see the worker again."""
    said = "etcd removes all its keys, and its worker has to start again, under a new id"
    return f"revoke-lease of {answer.instance.id}: {said}", f"see who is there: greenroom instances{control}"


def _decision(
    name: str,
    does: str,
    send: Callable[[ControlClient, Fields], Answer],
    words: Callable[[Answer, str], tuple[str, str]],
) -> Callable[..., None]:
    """The command of that name for a decision that takes an instance and a reason, and nothing more."""

    def decide(
        reason: Why,
        instance_id: Id = None,
        actor: Actor = None,
        address: ByAddress = None,
        model: ByModel = None,
        control: Control = DEFAULT_CONTROL,
        token_file: TokenFile = None,
    ) -> None:
        answer = _decided(control, token_file, Wanted(instance_id, address, model), reason, actor, send)
        say(*words(answer, control_again(control, token_file)))

    # What typer calls the command, and says of it.
    decide.__name__, decide.__doc__ = name, does
    return decide


reject = _decision(
    "reject",
    "Keeps an instance out that is not released, whatever its gates say, until somebody retries or overrides.",
    lambda client, fields: client.reject_instance(pb.RejectInstanceRequest(**fields)),
    rejected_words,
)
withdraw = _decision(
    "withdraw",
    "Takes a released instance's cards back, until somebody retries or overrides. Its worker goes on.",
    lambda client, fields: client.withdraw_instance(pb.WithdrawInstanceRequest(**fields)),
    withdrawn_words,
)
drop = _decision(
    "drop",
    "Forgets an instance's held cards: they are never published. Its worker may register anew.",
    lambda client, fields: client.drop_cards(pb.DropCardsRequest(**fields)),
    dropped_words,
)
revoke_lease = _decision(
    "revoke_lease",
    "Ends an instance's lease: all its keys go, and its worker has to start again. Off unless `serve` allows it.",
    lambda client, fields: client.revoke_lease(pb.RevokeLeaseRequest(**fields)),
    revoked_words,
)


def _retried(answer: pb.RetryGatesResponse) -> str:
    instance = answer.instance
    waits = [f"{gate.gate} (attempt {gate.attempt})" for gate in instance.gates if gate.state in OPEN]
    match answer.decision:
        case pb.DECISION_RELEASED:
            return "RELEASED, for its gates had passed already"
        case pb.DECISION_QUEUED:
            return f"its gates had passed already, and it waits: {unmet(instance)}"
        case pb.DECISION_REJECTED:
            failed = [gate for gate in instance.gates if gate_word(gate.state) == "failed"]
            return f"still REJECTED, for {', '.join(gate.gate for gate in failed)} failed"
        case _:
            state = state_word(instance.state)
            return f"{state}, to be decided: {', '.join(waits)}" if waits else f"{state}, it waits: {unmet(instance)}"


def _decided(
    control: str,
    token_file: str | None,
    wanted: Wanted,
    reason: str,
    actor: str | None,
    send: Callable[[ControlClient, Fields], Answer],
) -> Answer:
    """One decision about the one instance that fits; SettingsError where what was typed cannot be meant."""
    with connect(control, token_file) as client:
        given = None if actor is None else _typed("--actor", actor)
        why = _typed("--reason", reason)
        name = choose(client.instances(), wanted).name
        return in_own_name(given, client, lambda who: send(client, {"name": name, "reason": why, "actor": who}))


def _typed(option: str, text: str) -> str:
    """A text that others will read as it was meant; unlike a check's output, a person can type it again."""
    if not text.strip():
        raise SettingsError(f"{option} {text!r}: is blank: others will read it in the trail")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SettingsError(f"{option}: is not UTF-8: type it again, or set the terminal to UTF-8") from None
    return text


def _back(instance: pb.Instance, control: str) -> str:
    return f"bring it back: {decision('retry', instance, control)}"


def _next(instance: pb.Instance, control: str) -> str:
    return f"next: {next_steps(instance, control)[0]}"

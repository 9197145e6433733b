"""The list of instances as people read it: a table where it fits, else two lines an instance."""

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

from greenroom.cli.layout import shortened, table, width
from greenroom.cli.words import (
    FAILED,
    HELD,
    NO_CARD,
    OPEN,
    REJECTED,
    RELEASED,
    WITHDRAWN,
    endpoint_path,
    gate_words,
    has_later_cards,
    has_no_card,
    holds_to_lift,
    is_to_be_withdrawn,
    open_gates,
    shown_state,
    since,
    until,
    waits_for_a_person,
)
from greenroom.pb.control.v1.control_pb2 import Condition, GateStatus, Instance

HEADINGS = ("INSTANCE", "MODEL", "ENDPOINT", "ADDRESS", "STATE", "GATES", "WAITS FOR", "AGE")
MAX_REASON_CHARACTERS = 60
"""A gate's reason in a list; the whole of it stands in `greenroom instance`."""


def render(instances: Sequence[Instance], now: datetime, columns: int | None) -> list[str]:
    """Lines no longer than `columns` where that can be had; None: as long as they get."""
    if not instances:
        return ["no instances"]
    lines = table(HEADINGS, [_row(instance, now) for instance in instances])
    if columns is None or width(lines) <= columns:
        return lines
    return [line for instance in instances for line in _block(instance, now)]


def one_line(instance: Instance, now: datetime) -> str:
    """An instance in one line, for lists of changes."""
    waiting = waits_for(instance, now)
    what = f"{_models(instance)} at {instance.address}" if instance.address else _models(instance)
    gates = f", {gates_in_words(instance)}" if instance.gates else ""
    return f"{instance.id} {shown_state(instance)} {what}{gates}{f', waits for {waiting}' if waiting != '-' else ''}"


def waits_for(instance: Instance, now: datetime) -> str:
    """What an instance, or a later card of a released one, waits for, in few words; `-` for nothing."""
    if is_to_be_withdrawn(instance):
        return "its withdrawal"
    if instance.state == RELEASED and not has_later_cards(instance):
        return "-"
    if waits_for_a_person(instance):
        return "a person's retry or override"
    if instance.state == REJECTED:
        return _rejection(instance)
    lacks_card = has_no_card(instance)
    missing = [one for one in instance.conditions if not one.status and not (lacks_card and one.reason == NO_CARD)]
    waiting = [*(["a card"] if lacks_card else []), *(_missing(instance, one, now) for one in missing)]
    return " and ".join(waiting) or "its release"


def gates_in_words(instance: Instance) -> str:
    """`smoke passed, latency pending`."""
    return ", ".join(f"{gate.gate} {gate_words(instance, gate)}" for gate in instance.gates) or "-"


def _row(instance: Instance, now: datetime) -> tuple[str, ...]:
    return (
        *(instance.id, _models(instance), endpoint_path(instance), instance.address or "-"),
        *(shown_state(instance), gates_in_words(instance), waits_for(instance, now), _age(instance, now)),
    )


def _block(instance: Instance, now: datetime) -> list[str]:
    waiting = waits_for(instance, now)
    second = f"  {gates_in_words(instance)}" + (f"; waits for {waiting}" if waiting != "-" else "")
    where = f"  {endpoint_path(instance)} at {instance.address}" if instance.address else f"  {endpoint_path(instance)}"
    return [f"{instance.id}  {shown_state(instance)}  {_models(instance)}  {_age(instance, now)}", where, second]


def _models(instance: Instance) -> str:
    return ",".join(instance.models) or "-"


def _age(instance: Instance, now: datetime) -> str:
    """Since its first registration; one that was public before the proxy saw it has only its trail."""
    first = instance.transitions[0].time if instance.transitions else instance.release_time
    return since(instance.first_held_time if instance.HasField("first_held_time") else first, now)


def _rejection(instance: Instance) -> str:
    failed = [gate for gate in open_gates(instance) if gate.state == FAILED]
    if not failed:
        conflict = next((one.message for one in instance.conditions if one.reason == "RejectedForConflict"), "")
        return f"a retry or override{_because(conflict)}"
    names = ", ".join(gate.gate for gate in failed)
    why = next((gate.reason for gate in failed if gate.reason), "")
    return f"a retry of {names}{_because(f'failed: {why}' if why else 'failed')}"


def _because(text: str) -> str:
    return f" ({shortened(text, MAX_REASON_CHARACTERS)})" if text else ""


def _missing(instance: Instance, condition: Condition, now: datetime) -> str:
    waiting = [gate for gate in open_gates(instance) if gate.state in OPEN]
    if condition.type == "GatesPassed" and waiting and instance.state in (HELD, WITHDRAWN, RELEASED):
        return _gates_with_times(waiting, now)
    if condition.type == "NotOnHold":
        return f"{holds_to_lift(instance) or 'a rollout hold'} to be lifted"
    return shortened(condition.message, MAX_REASON_CHARACTERS)


def _gates_with_times(gates: Sequence[GateStatus], now: datetime) -> str:
    """`latency (9m left), smoke (14m left)`; a time that several have stands once, behind the last of them."""
    told = [(gate.gate, until(gate.deadline_time, now)) for gate in gates]
    runs = groupby(told, key=lambda one: one[1])
    return ", ".join(", ".join(name for name, _ in run) + (f" ({left})" if left else "") for left, run in runs)

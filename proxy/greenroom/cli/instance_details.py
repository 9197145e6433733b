"""One instance in full: why it is not released, what was decided about it and by whom, and what helps next."""

from collections.abc import Sequence
from datetime import datetime

from greenroom.cli.layout import indented, shortened, table
from greenroom.cli.words import (
    HELD,
    MAX_REASON_CHARACTERS,
    NO_CARD,
    OPEN,
    OPENED,
    OVERRIDDEN,
    PENDING,
    REJECTED,
    RELEASED,
    again_every,
    clock_time,
    decision,
    endpoint_path,
    failed_gates,
    forgiven_words,
    gate_word,
    gate_words,
    has_held_keys,
    has_later_cards,
    has_no_card,
    hold_words,
    in_state,
    is_continuous,
    is_to_be_withdrawn,
    is_undecided,
    open_gates,
    since,
    state_word,
    until,
    waits_for_a_person,
    why_in_service,
)
from greenroom.pb.control.v1.control_pb2 import HOLD_HEALTH, Condition, GateStatus, Instance, Transition


def render(instance: Instance, now: datetime, control: str = "") -> list[str]:
    """The whole page. `control` is what printed commands need to reach the same proxy."""
    return [
        *_head(instance, now),
        *_why(instance, now),
        *_section("Gates", _gates(instance, now)),
        *_section("Keys, in the order of registration", _keys(instance)),
        *_section(
            "Trail", table(("TIME", "WHO", "WHAT", "STATE", "WHY"), [_step(step) for step in instance.transitions])
        ),
        *_section("Next", next_steps(instance, control)),
    ]


NO_CARD_NOW = "no card is registered at the moment"
NEEDS_CARD = "let its worker register a card, or start it again: a new card begins new attempts of its gates"


def next_steps(instance: Instance, control: str = "") -> list[str]:
    """The commands that help, as they can be pasted, each ending in `control`; else what can be done at all."""
    if instance.state == RELEASED and (is_to_be_withdrawn(instance) or not has_later_cards(instance)):
        return [decision("withdraw", instance, control)]
    retry, override = decision("retry", instance, control), decision("release --override", instance, control)
    if has_no_card(instance):
        kept_out = instance.state == REJECTED or waits_for_a_person(instance)
        return [NEEDS_CARD, *([retry] if kept_out else []), *_keep_out(instance, control)]
    if waits_for_a_person(instance):
        return [retry, override]
    if failed := failed_gates(instance):
        # Only these: the others' attempts, which somebody may be at, stay open.
        retry = decision(" ".join(("retry", *failed)), instance, control)
    if instance.state == REJECTED:
        again = "or mend what failed and start the worker again: it registers anew, with a new id and fresh gates"
        return [retry, override, again]
    if _has_no_card_to_wait_for(instance):
        return [
            "let the rule with hold card+instance select by component, not by model, and start the worker again: the "
            "rule holds its instance record, and not its card"
        ]
    verdicts = [
        f"greenroom verdict {instance.id} {gate.gate} passed --attempt {gate.attempt} --reason 'why'{control}"
        for gate in open_gates(instance)
        if gate.state in OPEN
    ]
    if not verdicts and open_gates(instance):
        return [retry, "mend what failed and start the worker again; what is public stays so as long as it runs"]
    lifts = [f"greenroom rollout-hold lift {hold}{control}" for hold in instance.rollout_holds]
    if not verdicts and not lifts:
        return [f"greenroom wait {instance.id} --for released{control}"]
    return [*verdicts, *lifts, *([override] if verdicts else []), *_keep_out(instance, control)]


def _keep_out(instance: Instance, control: str) -> list[str]:
    return [decision("reject", instance, control)] if instance.state == HELD else []


def _has_no_card_to_wait_for(instance: Instance) -> bool:
    """Whether every gate passed, and what it registered as cards was never held."""
    lacks_card = any(one.reason == NO_CARD for one in instance.conditions)
    return lacks_card and any(key.live and key.public for key in instance.gated_keys)


def _head(instance: Instance, now: datetime) -> list[str]:
    first = instance.first_held_time
    facts = [
        ("models", ", ".join(instance.models) or "-"),
        ("endpoint", endpoint_path(instance)),
        ("address", instance.address or "not known: no instance record yet"),
        ("keeps back", _kept_back(instance)),
        ("first held", f"{clock_time(first)} ({since(first, now)} ago)" if first.seconds else "never"),
        ("released", clock_time(instance.release_time) if instance.HasField("release_time") else "not yet"),
    ]
    label_width = max(len(label) for label, _ in facts)
    return [
        f"Instance {instance.id} is {in_state(instance)}",
        *(f"  {label.ljust(label_width)}  {fact}" for label, fact in facts),
    ]


def _kept_back(instance: Instance) -> str:
    if (instance.dry_run or instance.hold == HOLD_HEALTH) and has_held_keys(instance):
        return "only what is shown as held below"
    return "nothing: dry run" if instance.dry_run else hold_words(instance.hold)


def _why(instance: Instance, now: datetime) -> list[str]:
    if is_to_be_withdrawn(instance):
        return _section("Why it is released", [why_in_service(instance)])
    if instance.state == RELEASED and not has_later_cards(instance):
        return []
    missing = [line for one in instance.conditions if not one.status for line in _missing(instance, one, now)]
    if has_no_card(instance) and not any(NO_CARD_NOW in line for line in missing):
        missing.insert(0, NO_CARD_NOW)
    title = "Why not all of it is public" if instance.state == RELEASED else "Why it is not released"
    return _section(title, missing or ["nothing is missing: it is about to be released"])


def _missing(instance: Instance, condition: Condition, now: datetime) -> list[str]:
    gates = [gate for gate in open_gates(instance) if not is_undecided(instance, gate)]
    if condition.type == "GatesPassed" and gates and not waits_for_a_person(instance):
        return [_missing_gate(gate, now) for gate in gates]
    return [shortened(condition.message, MAX_REASON_CHARACTERS)]


def _missing_gate(gate: GateStatus, now: datetime) -> str:
    reason = shortened(gate.reason, MAX_REASON_CHARACTERS)
    said = f": {reason}" if reason else ""
    if gate.state not in OPEN:
        return f"gate {gate.gate} {gate_word(gate.state)}{said}"
    so_far = "" if gate.state == PENDING else f"so far {gate_word(gate.state)}{said}"
    known = ", ".join(filter(None, (until(gate.deadline_time, now), _failed_before(gate), _claimed(gate, now), so_far)))
    what = f"has to pass, and then {again_every(gate)}" if is_continuous(gate) else "has to be decided"
    return f"gate {gate.gate} {what}{f' ({known})' if known else ''}"


def _failed_before(gate: GateStatus) -> str:
    if not gate.failures:
        return ""
    left = gate.failure_limit - gate.failures
    return f"{gate.failures} failed before, {forgiven_words(left)}"


def _claimed(gate: GateStatus, now: datetime) -> str:
    if not gate.HasField("claim"):
        return ""
    return f"claimed by {gate.claim.runner}, {until(gate.claim.expire_time, now)}"


def _gates(instance: Instance, now: datetime) -> list[str]:
    headings = ("GATE", "STATE", "ATTEMPT", "DEADLINE", "REPORTER", "REASON")
    return table(headings, [_gate(instance, gate, now) for gate in instance.gates]) if instance.gates else []


def _gate(instance: Instance, gate: GateStatus, now: datetime) -> tuple[str, ...]:
    reason = shortened(gate.reason, MAX_REASON_CHARACTERS)
    return (
        *(gate.gate, gate_words(instance, gate), str(gate.attempt)),
        *(_deadline(instance, gate, now), gate.reporter or "-", reason or "-"),
    )


def _deadline(instance: Instance, gate: GateStatus, now: datetime) -> str:
    if gate.HasField("renew_by_time"):
        return f"renew by {clock_time(gate.renew_by_time)} ({until(gate.renew_by_time, now)})"
    if gate.HasField("decided_time"):
        set_aside = gate.state == OVERRIDDEN and is_continuous(gate)
        return f"decided {clock_time(gate.decided_time)}{', until its next attempt' if set_aside else ''}"
    if is_undecided(instance, gate):
        return "-"
    if not gate.HasField("deadline_time"):
        return f"none, then {again_every(gate)}" if is_continuous(gate) else "none"
    by = f"{clock_time(gate.deadline_time)} ({until(gate.deadline_time, now)})"
    return f"pass by {by}, then {again_every(gate)}" if is_continuous(gate) else by


def _keys(instance: Instance) -> list[str]:
    if not instance.gated_keys and has_no_card(instance):
        return ["none"]
    return [_key(instance, index) for index in range(len(instance.gated_keys))]


def _key(instance: Instance, index: int) -> str:
    key = instance.gated_keys[index]
    place = "public" if key.public else "held"
    return f"{key.key.decode('utf-8', 'backslashreplace')}  {place if key.live else 'gone'}"


def _step(step: Transition) -> tuple[str, ...]:
    before, after = state_word(step.from_state), state_word(step.to_state)
    state = after if before in ("-", after) else f"{before} -> {after}"
    what, reason = step.event, shortened(step.reason, MAX_REASON_CHARACTERS)
    if what == OPENED:
        # Its reason is its first key, or a word for machines of why it began as released.
        what, reason = "registered", "it was public already" if step.to_state == RELEASED else reason
    return (clock_time(step.time), step.actor, what, state, reason or "-")


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", title, *indented(lines)] if lines else []

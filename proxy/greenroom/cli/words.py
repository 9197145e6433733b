"""The control API's enums and times as people read them, and its instances as stable JSON."""

from datetime import UTC, datetime
from typing import Any

from google.protobuf import json_format
from google.protobuf.timestamp_pb2 import Timestamp

from greenroom.cli.layout import shortened
from greenroom.durations import format_duration
from greenroom.pb.control.v1 import control_pb2

HELD = control_pb2.INSTANCE_STATE_HELD
RELEASED = control_pb2.INSTANCE_STATE_RELEASED
REJECTED = control_pb2.INSTANCE_STATE_REJECTED
WITHDRAWN = control_pb2.INSTANCE_STATE_WITHDRAWN
PENDING = control_pb2.GATE_STATE_PENDING
FAILED = control_pb2.GATE_STATE_FAILED
OVERRIDDEN = control_pb2.GATE_STATE_OVERRIDDEN
THROUGH = (control_pb2.GATE_STATE_PASSED, OVERRIDDEN)
OPEN = (
    PENDING,
    control_pb2.GATE_STATE_INCONCLUSIVE,
    control_pb2.GATE_STATE_ERROR,
)
OPENED = "opened"
"""The trail's word for an instance's first registration; what follows it is the key."""
NO_CARD = "NoCard"
"""A condition's reason: every gate passed, and nothing is held that could be published."""
MAX_REASON_CHARACTERS = 200
"""In a line. The JSON output has the whole 2 KiB."""
_HOLDS = {
    control_pb2.HOLD_CARD: "its cards",
    control_pb2.HOLD_CARD_AND_INSTANCE: "its cards and instance records",
    control_pb2.HOLD_HEALTH: "nothing but its health answer",
}


def state_word(state: int) -> str:
    """`HELD` and the like; `-` for none."""
    return _word(control_pb2.InstanceState, state, "INSTANCE_STATE_").replace("UNSPECIFIED", "-")


def state_named(word: str) -> "control_pb2.InstanceState.ValueType":
    """The state of a word, whatever its case; ValueError lists the words."""
    try:
        return control_pb2.InstanceState.Value(f"INSTANCE_STATE_{word.upper()}")
    except ValueError:
        raise ValueError("is none of held, released, rejected, withdrawn") from None


def in_state(instance: control_pb2.Instance) -> str:
    """`HELD (why)`; the reason is left out where it says no more than the state does."""
    shown, word = shown_state(instance), state_word(instance.state)
    says_no_more = instance.reason.upper() in ("", word) or instance.reason.startswith(f"{OPENED}: ")
    return shown if says_no_more else f"{shown} ({shortened(instance.reason, MAX_REASON_CHARACTERS)})"


def shown_state(instance: control_pb2.Instance) -> str:
    """`HELD`, or `HELD in dry run`: that one serves."""
    word = state_word(instance.state)
    return f"{word} in dry run" if instance.dry_run else word


def has_held_keys(instance: control_pb2.Instance) -> bool:
    """Whether anything of it is held; with a rule that holds nothing back, what a person or another rule keeps."""
    return any(key.live and not key.public for key in instance.gated_keys)


def stays_out(instance: control_pb2.Instance) -> str:
    """What a rejection means for its cards."""
    if instance.hold != control_pb2.HOLD_HEALTH:
        return "it stays out of routing"
    if has_held_keys(instance):
        return "what is held of it stays out of routing"
    return "its rule holds nothing back, so its cards stay public, and it counts as unhealthy"


def has_later_cards(instance: control_pb2.Instance) -> bool:
    """Whether it is released, and has registered more since that waits by itself."""
    return instance.state == RELEASED and has_held_keys(instance)


def gate_word(state: int) -> str:
    """`passed` and the like."""
    return _word(control_pb2.GateState, state, "GATE_STATE_").lower()


def is_undecided(instance: control_pb2.Instance, gate: control_pb2.GateStatus) -> bool:
    """Whether another gate rejected the instance while this one was open: nobody waits for it any more."""
    return instance.state == REJECTED and gate.state in OPEN


def unmet(instance: control_pb2.Instance) -> str:
    """What its conditions say that are not met, in one line."""
    return "; ".join(shortened(one.message, MAX_REASON_CHARACTERS) for one in instance.conditions if not one.status)


def is_to_be_withdrawn(instance: control_pb2.Instance) -> bool:
    """Whether a released instance serves although a continuous gate of it failed or was not renewed."""
    return bool(why_in_service(instance))


def why_in_service(instance: control_pb2.Instance) -> str:
    """What its condition says of that; empty where it says nothing."""
    return next((one.message for one in instance.conditions if one.reason == "ToBeWithdrawn"), "")


def waits_for_a_person(instance: control_pb2.Instance) -> bool:
    """Whether a person rejected or withdrew it, so that no gate brings it back."""
    return any(one.reason in ("RejectedByPerson", "WithdrawnByPerson") for one in instance.conditions)


def decision(command: str, instance: control_pb2.Instance, control: str = "") -> str:
    """A person's decision as it can be pasted, such as `greenroom retry ID --reason 'why'`."""
    name, *options = command.split()
    return " ".join(("greenroom", name, instance.id, *options, "--reason 'why'")) + control


def gate_words(instance: control_pb2.Instance, gate: control_pb2.GateStatus) -> str:
    """The gate's state as the instance's state lets it be understood."""
    word = "not decided" if is_undecided(instance, gate) else gate_word(gate.state)
    notes = [
        *(["continuous"] if is_continuous(gate) else []),
        *(["dry run"] if gate.dry_run and not instance.dry_run else []),
    ]
    return f"{word} ({', '.join(notes)})" if notes else word


def is_continuous(gate: control_pb2.GateStatus) -> bool:
    """Whether it has to go on passing after the release."""
    return gate.phase == control_pb2.GATE_PHASE_CONTINUOUS


def again_every(gate: control_pb2.GateStatus) -> str:
    """`again every 5m`: what a continuous gate has to do once it has passed; empty for any other."""
    if not is_continuous(gate):
        return ""
    seconds = gate.pass_ttl.ToTimedelta().total_seconds()
    return f"again every {format_duration(seconds)}" if seconds else "again"


def forgiven_words(left: int) -> str:
    """What a further failure of a gate that forgives `left` more comes to."""
    return f"{left} more {'is' if left == 1 else 'are'} forgiven" if left > 0 else "the next one counts"


def failed_gates(instance: control_pb2.Instance) -> list[str]:
    """The gates whose failure keeps something back until they are retried."""
    return [gate.gate for gate in open_gates(instance) if gate.state == FAILED]


def has_no_card(instance: control_pb2.Instance) -> bool:
    """Whether it is not released, and has nothing that could be: it was dropped, or its worker removed it."""
    return instance.state != RELEASED and not any(key.live for key in instance.gated_keys)


def open_gates(instance: control_pb2.Instance) -> list[control_pb2.GateStatus]:
    """The gates that it still needs to pass."""
    binding = (gate for gate in instance.gates if instance.dry_run or not gate.dry_run)
    return [gate for gate in binding if gate.state not in THROUGH]


def holds_to_lift(instance: control_pb2.Instance) -> str:
    """`rollout hold night`, `rollout holds night, weekend`, empty where none stops it."""
    ids = ", ".join(instance.rollout_holds)
    return f"rollout hold{'s' if len(instance.rollout_holds) > 1 else ''} {ids}" if ids else ""


def hold_words(hold: int) -> str:
    """What is kept back."""
    return _HOLDS.get(hold, "something that this version does not know")  # type: ignore[call-overload,no-any-return]


def moment(timestamp: Timestamp) -> datetime | None:
    """The time with its zone; None where it is not set."""
    return timestamp.ToDatetime(UTC) if timestamp.seconds else None


def clock_time(timestamp: Timestamp) -> str:
    """`2026-01-31 12:00:05 UTC`; `-` for none."""
    when = moment(timestamp)
    return f"{when:%Y-%m-%d %H:%M:%S} UTC" if when else "-"


def since(timestamp: Timestamp, now: datetime) -> str:
    """How long ago; `-` where it is not set."""
    when = moment(timestamp)
    return format_duration(max(0, (now - when).total_seconds())) if when else "-"


def until(timestamp: Timestamp, now: datetime) -> str:
    """`14m left`, `overdue`, or nothing where there is no such time."""
    when = moment(timestamp)
    if when is None:
        return ""
    left = (when - now).total_seconds()
    return f"{format_duration(left)} left" if left > 0 else "overdue"


def endpoint_path(instance: control_pb2.Instance) -> str:
    """`namespace.component.endpoint`, several endpoints by commas."""
    names = [name for name in (instance.namespace, instance.component, ",".join(instance.endpoints)) if name]
    return ".".join(names) or "-"


def hold_id(hold: control_pb2.RolloutHold) -> str:
    """The id in a rollout hold's name."""
    return hold.name.rpartition("/")[2]


def selector_words(selector: control_pb2.Selector) -> str:
    """`model=tiny,component=backend`, or that it is about everything."""
    given = [f"{field.name}={value}" for field, value in selector.ListFields()]
    return ",".join(given) or "every instance"


def as_json(message: Any) -> dict[str, Any]:
    """A message of the control API by its field names, every field present, enums and keys as words."""
    fields = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return {name: _plain(value, name) for name, value in fields.items()}


def instance_json(instance: control_pb2.Instance) -> dict[str, Any]:
    """An instance as JSON; keys are text, which is what they are in practice."""
    fields = as_json(instance)
    for field, key in zip(fields["gated_keys"], instance.gated_keys, strict=True):
        field["key"] = key.key.decode("utf-8", "backslashreplace")
    for name in ("generation", "record_revision"):
        fields[name] = int(fields[name])
    return fields


def _word(names: Any, value: int, prefix: str) -> str:
    """The enum's word for a value; one that only a newer proxy knows is told by its number."""
    return str(names.Name(value)).removeprefix(prefix) if value in names.values() else f"UNKNOWN-{value}"


_PREFIXES = ("INSTANCE_STATE_", "GATE_STATE_", "GATE_PHASE_", "HOLD_")
_ENUM_FIELDS = frozenset({"state", "from_state", "to_state", "hold", "phase"})


def _plain(value: Any, field: str = "") -> Any:
    """Enum words without their type's name in front."""
    if isinstance(value, dict):
        return {name: _plain(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner, field) for inner in value]
    if field in _ENUM_FIELDS and isinstance(value, str):
        word = next((value.removeprefix(prefix) for prefix in _PREFIXES if value.startswith(prefix)), value)
        return None if word == "UNSPECIFIED" else word
    return value

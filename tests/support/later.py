"""A released instance of which a later card waits: its LoRA card is public, its own card came back and is held."""

from datetime import datetime

from greenroom.core.policy import Hold
from greenroom.core.record import Record
from greenroom.core.transitions import Outcome, card_added, released, with_verdict
from tests.support.instances import LORA, NOW, K, entry, held_record, needs


def released_record(gates: tuple[str, ...] = ("smoke",), hold: Hold = Hold.CARD) -> Record:
    """Of the LoRA card alone, released at NOW."""
    record = held_record(LORA, gates=gates, hold=hold)
    for gate in gates:
        record = with_verdict(record, gate, 1, Outcome.PASSED, reason="", reporter="ci", now=NOW)
    return released(record, NOW)


def with_later(record: Record, *gates: str, now: datetime = NOW) -> Record:
    """The card K held by itself, until these gates (`smoke` where none is given) have passed."""
    waits_for = gates or ("smoke",)
    later = entry(K).model_copy(update={"later_gates": waits_for})
    return card_added(record, later, needs(*waits_for), now)

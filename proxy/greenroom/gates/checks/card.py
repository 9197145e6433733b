"""`check card`: what an instance registered is what the released ones of its model have.

It compares what frontends compare (checksums of a model's files, block size, lengths, types; `core.configuration`), as
the control API tells it. It catches a worker with other files, which would stand idle or take the model over when the
others leave. It does not look at weights: no card has a checksum of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from greenroom.core.configuration import differences, set_of, value_in
from greenroom.errors import CheckFailed, CheckInconclusive
from greenroom.pb.control.v1.control_pb2 import GatedKey, Instance

MAX_DIFFERENCES: Final = 6


def check_card(
    instance: Instance, others: Sequence[Instance], expected: Mapping[str, str], *, alone_is_fine: bool
) -> str:
    """Passes where all its cards are as expected and as those of the others; CheckFailed, CheckInconclusive.

    `expected` are values of fields as configurations have them.
    """
    cards = [key for key in instance.gated_keys if key.live and key.configuration]
    if not cards:
        raise CheckInconclusive(f"{instance.id} has no card that could be compared")
    for card in cards:
        _must_be_expected(card, expected)
    compared = [_compared(card, instance, others) for card in cards]
    alone = [card.model for card, found in zip(cards, compared, strict=True) if not found]
    if alone and not alone_is_fine:
        raise CheckInconclusive(f"no released instance to compare {', '.join(alone)} with")
    named = sorted({one for found in compared for one in found})
    return f"{_models(cards)}: {_as_whose(named)}{_as_expected(expected)}"


def _must_be_expected(card: GatedKey, expected: Mapping[str, str]) -> None:
    for field, wanted in expected.items():
        if (found := value_in(card.configuration, field)) != wanted:
            raise CheckFailed(f"{card.model}: {field} is {found}, expected {wanted}")


def _compared(card: GatedKey, instance: Instance, others: Sequence[Instance]) -> list[str]:
    """The ids of those that have the same card; CheckFailed for one that has another."""
    found = []
    for other in others:
        for theirs in _comparable(card, instance, other):
            if different := differences(card.configuration, theirs.configuration):
                told = "; ".join(map(str, different[:MAX_DIFFERENCES]))
                more = f"; and {len(different) - MAX_DIFFERENCES} more" if len(different) > MAX_DIFFERENCES else ""
                raise CheckFailed(f"{card.model} is not that of {other.id} (released): {told}{more}")
            found.append(other.id)
    return found


def _comparable(card: GatedKey, instance: Instance, other: Instance) -> Iterator[GatedKey]:
    """Public cards of the same model at the same place, with the same types of model and worker."""
    if other.id == instance.id:
        return
    for theirs in other.gated_keys:
        is_same = theirs.model == card.model and _place(theirs, other) == _place(card, instance)
        is_same = is_same and set_of(theirs.configuration) == set_of(card.configuration)
        if theirs.live and theirs.public and theirs.configuration and is_same:
            yield theirs


def _place(card: GatedKey, instance: Instance) -> bytes:
    """Namespace, component and endpoint, as its key has them: an instance may serve at several."""
    return card.key.partition(instance.id.encode())[0]


def _models(cards: Sequence[GatedKey]) -> str:
    return ", ".join(dict.fromkeys(card.model for card in cards))


def _as_whose(named: Sequence[str]) -> str:
    if not named:
        return "nobody to compare with"
    return f"as {named[0]} has it" if len(named) == 1 else f"as {named[0]} and {len(named) - 1} more have it"


def _as_expected(expected: Mapping[str, str]) -> str:
    return f", and as expected ({', '.join(expected)})" if expected else ""

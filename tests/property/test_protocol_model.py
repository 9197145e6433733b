"""The protocol as a model: the core's own plans on a model etcd, in every order in which their requests can come.

The rule: nothing breaks a guarantee in any interleaving, and each compare that a plan carries is needed: left out, it
breaks one, or it stands in REDUNDANT with the reason why not.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from greenroom.core.keyspace import BUDGET, SHADOWS, Key, record_key
from greenroom.core.policy import Hold
from greenroom.core.publication import withdrawal_txn
from greenroom.core.record import GatedEntry, Record, State
from greenroom.core.snapshot import read_request, snapshot_from
from greenroom.core.txns import put as put_operation
from greenroom.pb.etcd import kv_pb2, rpc_pb2
from tests.support.model_etcd import ModelEtcd
from tests.support.model_explore import Actor, Ask, At, Fault, Next, Program, explore
from tests.support.model_fleet import CARD, L
from tests.support.model_runs import classify, explored, start
from tests.support.model_scenario import SMOKE
from tests.support.model_scenarios import SCENARIOS
from tests.support.story import Saw

Compare = rpc_pb2.Compare

RECORD = "the record's revision"
SHADOW = "each shadow's revision"
NO_NEWER_SHADOW = "no newer shadow"
NO_NEWER_HOLD = "no newer rollout hold"
BUDGET_UNCHANGED = "the budget's revision"
SHADOW_EXISTS = "the shadow exists"
NO_SHADOW = "no shadow"
PUBLIC = "each public card's revision"
PUBLIC_EXISTS = "the public card exists"
NOT_PUBLIC = "no public card"
CLIENTS = "the client's own compare"
GUARD = "the guard of its Else"

NEEDED: dict[tuple[str, str], str] = {
    ("open", RECORD): "two proxies register cards of one worker at once",
    ("open", NOT_PUBLIC): "a worker registers with etcd itself and through the proxy",
    ("held, put of a new card", RECORD): "a card registers while it passes",
    ("held, put of a new card", NOT_PUBLIC): "a card comes past the proxy while it registers",
    ("held, edit of taints", RECORD): "taints and more change at once",
    ("held, edit of taints", SHADOW_EXISTS): "a card is deleted while its taints change",
    ("held, edit of taints", CLIENTS): "two edits of a held card's taints at once",
    ("held, change", RECORD): "a card changes while it fails",
    ("held, change", SHADOW_EXISTS): "a card is deleted while it changes",
    ("held, change", CLIENTS): "two edits of a held card at once",
    ("held, delete", RECORD): "a card is deleted while it passes",
    ("no record, delete", NOT_PUBLIC): "a card that another replica has no rule for is deleted while it registers",
    ("not released, put of a public card", PUBLIC_EXISTS): "an instance record that was public before",
    ("not released, put of a public card", CLIENTS): "two edits of a card that no rule matches",
    ("no rule, put", RECORD): "two replicas with different policies",
    ("verdict", RECORD): "a verdict on one gate while the other fails",
    ("reconcile", RECORD): "a card registers while its deadline passes",
    ("retry", RECORD): "a card registers while a failed gate is retried",
    ("reject", RECORD): "a card registers while a person rejects it",
    ("override", RECORD): "a card registers while it is overridden under a rollout hold",
    ("release", RECORD): "one gate fails while the other passes",
    ("release", SHADOW): "a card is deleted while it passes",
    ("release", NO_NEWER_HOLD): "a rollout hold comes while it passes",
    ("released, put of a public card", PUBLIC_EXISTS): "edited and deleted while released",
    ("released, put of a public card", CLIENTS): "two edits of a public card at once",
    ("released, put of a new card", RECORD): "a LoRA card registers while withdrawn",
    ("released, delete", RECORD): "deleted while withdrawn",
    ("withdraw", RECORD): "a LoRA card registers while withdrawn",
    ("withdraw", PUBLIC): "edited while withdrawn",
    ("held, put of a new card", GUARD): "a card is created, or written over in an Else",
    ("held, change", GUARD): "a card is swapped, or another written in an Else",
    ("held, edit of taints", GUARD): "taints are swapped, or others written in an Else",
    ("released, put of a public card", GUARD): "taints are swapped, or others written in an Else",
    ("new, open", RECORD): "a new worker registers by two proxies that know nothing of it",
    (
        "new, open",
        NOT_PUBLIC,
    ): "a new worker registers with etcd itself and through a proxy that knows nothing of it",
    ("remembered, held, put of a new card", RECORD): "changed from memory while it is deleted",
    ("remembered, held, change", RECORD): "changed from memory while it fails",
    ("remembered, held, change", SHADOW): "changed from memory while it is deleted",
    ("remembered, held, edit of taints", SHADOW): "edited from memory while it is deleted",
    ("remembered, released, put of a public card", PUBLIC): "written and deleted from memory while withdrawn",
    ("remembered, released, delete", RECORD): "written and deleted from memory while withdrawn",
    ("later, put of a new card", RECORD): "another model and a card with another gate register at two proxies",
    ("later, put of a new card", NOT_PUBLIC): "another model is public past the proxy while it registers",
    ("later, put of a new card", GUARD): "a card is created, or written over in an Else",
    ("later, edit of taints", RECORD): "a later card's taints and more change at once",
    ("later, edit of taints", SHADOW_EXISTS): "a later card is deleted while its taints change",
    ("later, edit of taints", CLIENTS): "two edits of a later card's taints at once",
    ("later, change", RECORD): "a later card changes while it is withdrawn",
    ("later, change", SHADOW_EXISTS): "a later card is deleted while it changes",
    ("later, change", CLIENTS): "two edits of a later card at once",
    ("later, delete", RECORD): "a later card is deleted while it passes",
    ("publish what came later", RECORD): "a later card changes while it fails",
    ("publish what came later", SHADOW): "a later card is deleted while it passes",
    ("publish what came later", NO_NEWER_HOLD): "a rollout hold comes while a later card passes",
    ("remembered, later, put of a new card", RECORD): "a later card is created and deleted from memory while withdrawn",
    ("remembered, later, change", RECORD): "a later card is changed from memory while it passes or fails",
    ("remembered, later, change", SHADOW): "a later card is changed from memory while it is deleted",
    ("remembered, later, edit of taints", SHADOW): "a later card is edited from memory while it is deleted",
    ("drop", RECORD): "a card registers again while it is dropped",
    ("adopt", RECORD): "a live worker is put behind two proxies",
    ("adopt", PUBLIC): "a live worker unregisters while it is taken on",
}
"""A scenario that goes wrong when a plan is sent without one of its compares."""

TOGETHER: dict[tuple[str, str, str], str] = {
    ("release", RECORD, NO_NEWER_SHADOW): "a card registers while it passes",
    ("no record, delete", RECORD, NOT_PUBLIC): "a card of an unknown worker is deleted while it registers",
    ("released, put of a public card", RECORD, PUBLIC_EXISTS): "written while withdrawn",
    ("publish what came later", RECORD, NO_NEWER_SHADOW): "another model registers while withdrawn",
    ("remembered, held, delete", RECORD, SHADOW): "deleted from memory while it is written",
    ("remembered, later, delete", RECORD, SHADOW): "a later card is deleted from memory while it is written",
}
"""Two compares of which one is enough, in a scenario that goes wrong without both and well without either."""

REDUNDANT: dict[tuple[str, str], str] = {
    ("open", NO_NEWER_SHADOW): "there is no shadow without a record, which is on the same lease",
    ("open", NO_SHADOW): "there is no shadow without a record",
    ("open", CLIENTS): "whoever else creates the key opens the record",
    ("held, put of a new card", NO_SHADOW): "where nothing is kept back, there is no shadow",
    ("held, put of a new card", CLIENTS): "whoever else creates the key writes the record",
    ("no record, delete", RECORD): "a card that is held by now is deleted there, and one that is public is compared",
    ("no rule, put", NO_SHADOW): "there is no shadow without a record",
    ("no rule, put", NOT_PUBLIC): "without a record and a rule a put of a public key writes the same",
    ("no rule, put", CLIENTS): "the plan compares the same",
    (
        "not released, put of a public card",
        RECORD,
    ): "where the card is public still, it is written there in every state",
    ("not released, put of a public card", NO_SHADOW): "a key is never in both places",
    ("not released, delete of a public card", RECORD): "as for the put",
    ("not released, delete of a public card", NO_SHADOW): "as for the put",
    ("not released, delete of a public card", PUBLIC_EXISTS): "the record or the shadow tells that the card moved",
    ("released, put of a public card", RECORD): "a withdrawal takes the card from its public place",
    ("released, put of a new card", CLIENTS): "whoever else creates the key writes the record",
    ("release", NO_NEWER_SHADOW): "a new shadow comes with a new record, an edited one is compared itself",
    ("release", BUDGET_UNCHANGED): "of one instance alone; of two, see test_budget_model",
    ("withdraw", BUDGET_UNCHANGED): "of one instance alone; of two, see test_budget_model",
    ("new, open", NO_NEWER_SHADOW): "as after a read",
    ("new, open", CLIENTS): "as after a read",
    ("later, put of a new card", CLIENTS): "as for a card of an instance that waits",
    ("publish what came later", NO_NEWER_SHADOW): "as for a release",
    ("publish what came later", BUDGET_UNCHANGED): "it uses no place in the budget",
    ("remembered, held, put of a new card", CLIENTS): "as after a read",
    ("remembered, later, put of a new card", CLIENTS): "as after a read",
    ("remembered, later, put of a new card", SHADOW): "how large the other cards are, no guarantee asks",
    ("remembered, later, put of a new card", NOT_PUBLIC): "nobody comes past the proxy here; as after a read",
    ("remembered, later, edit of taints", RECORD): "a shadow that is as it was has not moved",
    ("remembered, later, delete", RECORD): "a shadow that is as it was has not moved",
    ("remembered, later, delete", SHADOW): "as after a read, which does not compare it",
    ("remembered, held, put of a new card", SHADOW): "how large the other cards are, no guarantee asks",
    ("remembered, held, put of a new card", NOT_PUBLIC): "nobody comes past the proxy here; as after a read",
    ("remembered, held, edit of taints", RECORD): "a shadow that is as it was has not moved",
    ("remembered, held, delete", RECORD): "a shadow that is as it was has not moved",
    ("remembered, held, delete", SHADOW): "as after a read, which does not compare it",
    ("remembered, released, put of a public card", RECORD): "as after a read",
}
"""Compares that nothing here goes wrong without: a second line of defence, or room for what is not built yet."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_interleaving_keeps_every_guarantee(name: str) -> None:
    states, fault, _ = undisturbed(name)
    assert fault is None, str(fault)
    assert states > len(SCENARIOS[name].actors)


@pytest.mark.parametrize(("kind", "label"), NEEDED, ids=[f"{kind} without {label}" for kind, label in NEEDED])
def test_a_compare_left_out_is_found(kind: str, label: str) -> None:
    _, fault = explored(NEEDED[kind, label], leaving_out(kind, label))
    assert fault is not None, f"nothing goes wrong when a Txn of {kind!r} does not compare {label}"


@pytest.mark.parametrize(
    ("kind", "one", "other"), TOGETHER, ids=[f"{kind} without {one} and {other}" for kind, one, other in TOGETHER]
)
def test_either_of_two_compares_is_enough(kind: str, one: str, other: str) -> None:
    name = TOGETHER[kind, one, other]
    assert explored(name, leaving_out(kind, one, other))[1] is not None
    for alone in (one, other):
        assert explored(name, leaving_out(kind, alone))[1] is None


def test_every_compare_was_judged() -> None:
    """What a plan newly compares, or a new kind of Txn, must be tried without it too."""
    sent = {compared for name in SCENARIOS for compared in undisturbed(name)[2]}
    assert sent == NEEDED.keys() | REDUNDANT.keys()


def test_a_read_in_two_steps_would_miss_a_card_that_is_there() -> None:
    """Why an owner's read asks for shadow and public key in one Txn."""

    def in_two_steps(_: Any) -> Program:
        found: list[kv_pb2.KeyValue] = []
        for key in (CARD, Key(SHADOWS + L.encode() + b"/" + CARD)):
            request = rpc_pb2.TxnRequest()
            request.success.add().request_range.key = key
            answer = yield Ask("read one place", request)
            found += answer.responses[0].response_range.kvs
        return Next((Saw(answer.header.revision, L, CARD, found[0].value if found else None),))

    actors = (Actor("owner", (in_two_steps,)), Actor("reporter", (SMOKE,)))
    world = replace(start(SCENARIOS["a card registers while it passes"]), actors=(At(), At()))
    _, fault = explore(actors, world, classify, lambda _: iter(()))
    assert fault is not None
    assert "its owner sees None" in fault.words


@pytest.mark.parametrize("cards", [1, 60, 61, 120])
def test_as_many_cards_as_an_instance_may_have_are_withdrawn_in_one_txn(cards: int) -> None:
    """etcd takes what a Txn uses of its 128 operations off the limit of those nested in it."""
    keys = [Key(b"%b/%03d" % (CARD, number)) for number in range(cards)]
    etcd = ModelEtcd().grant(0x7F)
    record = Record(state=State.WITHDRAWN, hold=Hold.CARD, cards=tuple(GatedEntry(key=key.decode()) for key in keys))
    etcd, _ = etcd.put(put_operation(record_key(L), record.model_dump_json().encode(), 0x7F).request_put)
    for key in keys:
        etcd, _ = etcd.put(put_operation(key, b"{}", 0x7F).request_put)
    _, answer = etcd.txn(read_request(L, keys))
    after, answer = etcd.txn(withdrawal_txn(snapshot_from(L, keys, answer), record))
    assert answer.succeeded
    assert after.revision == etcd.revision + 1
    assert not [key for key in after.items if key.startswith(CARD)]
    assert len([key for key in after.items if key.startswith(SHADOWS)]) == cards


@cache
def undisturbed(name: str) -> tuple[int, Fault | None, frozenset[tuple[str, str]]]:
    """The states of a scenario, its first fault, and every compare that was sent: the kind of its Txn and its label."""
    sent: set[tuple[str, str]] = set()

    def noted(ask: Ask) -> Ask:
        if isinstance(ask.request, rpc_pb2.TxnRequest):
            sent.update((ask.kind, label_of(ask, place)) for place in range(len(ask.request.compare)))
        return ask

    states, fault = explored(name, noted)
    return states, fault, frozenset(sent)


def leaving_out(kind: str, *labels: str) -> Any:
    """Sends every Txn of a kind without the compares of these labels."""

    def change(ask: Ask) -> Ask:
        if ask.kind != kind or not isinstance(ask.request, rpc_pb2.TxnRequest):
            return ask
        request = rpc_pb2.TxnRequest()
        request.CopyFrom(ask.request)
        kept = [compare for place, compare in enumerate(ask.request.compare) if label_of(ask, place) not in labels]
        del request.compare[:]
        request.compare.extend(kept)
        return replace(ask, request=request)

    return change


def label_of(ask: Ask, place: int) -> str:
    """What one compare of a Txn is about."""
    assert isinstance(ask.request, rpc_pb2.TxnRequest)
    compare = ask.request.compare[place]
    if place < ask.compares_of_client:
        return GUARD if ask.guards else CLIENTS
    if compare.key in (record_key(L), BUDGET):
        return RECORD if compare.key == record_key(L) else BUDGET_UNCHANGED
    held = compare.key.startswith(SHADOWS)
    if compare.range_end:
        return NO_NEWER_SHADOW if held else NO_NEWER_HOLD
    if compare.target == Compare.MOD:
        return SHADOW if held else PUBLIC
    if compare.result == Compare.GREATER:
        return SHADOW_EXISTS if held else PUBLIC_EXISTS
    return NO_SHADOW if held else NOT_PUBLIC

"""What a Range through a preview asks of etcd, and refuses. What it answers is in tests/property/test_preview.py."""

from typing import Any

import pytest

from greenroom.core.keyspace import RECORDS, record_key, shadow_key
from greenroom.core.preview import View
from greenroom.core.preview_reads import read_answer, read_txn
from greenroom.core.selectors import Selector
from greenroom.core.templates import dynamo_gated_keys
from greenroom.errors import UnsupportedCall
from greenroom.pb.etcd import rpc_pb2
from tests.support.mirroring import ONE, TWO, kv_of, shadow_kv
from tests.support.registering import card_key

GATED = dynamo_gated_keys(instances=False)
CARDS = {"key": b"v1/mdc/", "range_end": b"v1/mdc0"}
Range = rpc_pb2.RangeRequest


def asked(view: View, **request: Any) -> list[Range]:
    txn = read_txn(Range(**request), view)
    assert txn is not None, "something is held there"
    assert not txn.compare
    return [operation.request_range for operation in txn.success]


def test_what_shows_nothing_held_is_etcds_own_whatever_its_options() -> None:
    other = Range(key=b"v1/instances/", range_end=b"v1/instances0", sort_order=Range.DESCEND, limit=3)
    assert read_txn(other, View(GATED)) is None


def test_parts_are_read_as_a_whole_and_cut_afterwards() -> None:
    public, shadows = asked(View(GATED), **CARDS, limit=2, count_only=True, revision=9, serializable=True)
    for part in (public, shadows):
        assert (part.limit, part.count_only, part.keys_only) == (0, False, True)
        assert (part.revision, part.serializable) == (9, True)


def test_a_selector_reads_the_records_of_the_same_revision() -> None:
    view = View(GATED, selector=Selector(model="x"))
    assert asked(view, **CARDS, revision=9)[2] == Range(key=RECORDS, range_end=RECORDS[:-1] + b"0", revision=9)
    assert [part.key for part in asked(view, key=card_key(ONE))] == [
        card_key(ONE),
        shadow_key(ONE, card_key(ONE)),
        record_key(ONE),
    ]


@pytest.mark.parametrize(
    "options", [{"sort_order": Range.DESCEND}, {"sort_target": Range.VALUE}, {"min_mod_revision": 1}]
)
def test_what_no_frontend_asks_for_is_refused_in_words(options: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedCall, match="a preview gives keys in their order"):
        read_txn(Range(**CARDS, **options), View(GATED))


def test_the_parts_are_joined_in_order_under_the_txns_header() -> None:
    """The shadow wins where both are, which the protocol rules out; another instance's shadow stays out."""
    answer = rpc_pb2.TxnResponse()
    answer.header.revision = 12
    public, shadows = (answer.responses.add().response_range for _ in range(2))
    public.kvs.extend([kv_of(card_key(ONE), b"public"), kv_of(card_key(TWO), b"public")])
    shadows.kvs.extend([shadow_kv(ONE, value=b"held"), shadow_kv(TWO, card_key(TWO, "a"), b"another's")])
    found = read_answer(Range(**CARDS, limit=1), View(GATED, instance=ONE), answer)
    assert [(kv.key, kv.value) for kv in found.kvs] == [(card_key(ONE), b"held")]
    assert (found.count, found.more, found.header.revision) == (2, True, 12)

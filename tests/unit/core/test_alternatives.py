"""A Txn whose Else writes, by the branch that is to run: what is looked at, what is sent, what the client is told."""

import pytest

from greenroom.core.alternatives import Alternative, alternative, look
from greenroom.core.record import State
from greenroom.core.snapshot import Snapshot
from greenroom.core.worker_calls import examine
from greenroom.errors import UnsupportedCall
from greenroom.pb.etcd import kv_pb2, rpc_pb2
from tests.support.instances import (
    GATED_KEYS,
    TEXT,
    K,
    delete,
    edited,
    get,
    held_record,
    mod,
    put,
    snapshot,
    value_of,
    version,
)

OTHER_CARD = edited(K, context_length=4096)
HELD = snapshot(held_record(K), shadows={K: 20})
PUBLIC = snapshot(public={K: 40})
NOBODY = snapshot()
OTHER = put(b"other", b"x", lease=0)


def value_is(key: bytes, value: bytes) -> rpc_pb2.Compare:
    return rpc_pb2.Compare(key=key, target=rpc_pb2.Compare.VALUE, value=value)


def upsert(*compare: rpc_pb2.Compare) -> rpc_pb2.TxnRequest:
    return rpc_pb2.TxnRequest(compare=compare, success=[put(K)], failure=[put(K, OTHER_CARD), get(K)])


def looked(*found: list[kv_pb2.KeyValue], more: bool = False) -> rpc_pb2.TxnResponse:
    answer = rpc_pb2.TxnResponse()
    for kvs in found:
        answer.responses.add().response_range.CopyFrom(rpc_pb2.RangeResponse(kvs=kvs, more=more))
    return answer


def chosen(txn: rpc_pb2.TxnRequest, seen: Snapshot, answer: rpc_pb2.TxnResponse | None = None) -> Alternative:
    uses = examine(txn, GATED_KEYS)
    assert uses is not None
    return alternative(txn, uses, seen, answer)


def reads(txn: rpc_pb2.TxnRequest) -> str | None:
    uses = examine(txn, GATED_KEYS)
    assert uses is not None
    found = look(txn, uses)
    return found and TEXT.operations(found.success)


def test_then_is_sent_under_the_clients_compares_and_without_an_else() -> None:
    branch = chosen(upsert(version(K)), NOBODY)
    assert branch.succeeded
    assert TEXT.txn(branch.call) == "ver(K)=0 || put K lease"


@pytest.mark.parametrize(("seen", "revision"), [(HELD, 20), (PUBLIC, 40)], ids=["held", "public"])
def test_else_is_sent_under_the_guard_of_what_failed(seen: Snapshot, revision: int) -> None:
    """Under the key's own name: it is gated, and mapped, like any other call's."""
    branch = chosen(upsert(version(K)), seen)
    assert not branch.succeeded
    assert TEXT.txn(branch.call) == f"mod(K)={revision} || put K lease; get K"


def test_a_later_card_of_a_released_instance_is_what_there_is_of_its_key() -> None:
    released = held_record(K).model_copy(update={"state": State.RELEASED})
    assert "mod(K)=20" in TEXT.txn(chosen(upsert(version(K)), snapshot(released, shadows={K: 20})).call)


def test_an_absent_key_is_guarded_as_absent_and_has_no_value() -> None:
    assert TEXT.txn(chosen(upsert(value_is(K, b"")), NOBODY).call).startswith("mod(K)=0 ||")
    assert TEXT.txn(chosen(upsert(mod(K, 3)), NOBODY).call).startswith("mod(K)=0 ||")
    assert chosen(upsert(mod(K, 0)), NOBODY).succeeded


def test_the_first_compare_that_fails_is_guarded_and_no_other_is_in_its_way() -> None:
    """As many as etcd takes leave room for the record's."""
    txn = upsert(version(K, 1), version(b"other", 3), mod(b"other", 4))
    other = kv_pb2.KeyValue(key=b"other", version=2, mod_revision=50)
    branch = chosen(txn, HELD, looked([other], [other]))
    assert TEXT.txn(branch.call).startswith("mod(other)=50 ||")


def test_only_what_the_snapshot_does_not_have_is_looked_at() -> None:
    whole = rpc_pb2.Compare(key=b"v1/", range_end=b"v10", target=rpc_pb2.Compare.MOD, mod_revision=3)
    assert reads(upsert(version(K))) is None
    assert reads(upsert(version(K), value_is(b"other", b"x"), whole)) == (
        "get other limit=1000; get [b'v1/', b'v10') keys limit=1000"
    )


def test_what_was_looked_at_decides_in_its_order() -> None:
    whole = rpc_pb2.Compare(key=b"v1/", range_end=b"v10", target=rpc_pb2.Compare.VERSION, version=1)
    one, two = kv_pb2.KeyValue(key=b"v1/a", version=1), kv_pb2.KeyValue(key=b"v1/b", version=2, mod_revision=60)
    txn = upsert(version(b"other", 0), version(K, 1), whole)
    assert chosen(txn, HELD, looked([], [one])).succeeded
    guard = chosen(txn, HELD, looked([], [one, two])).call.compare[-1]
    assert (guard.key, guard.range_end, guard.mod_revision) == (b"v1/b", b"v1/b\0", 60)
    with pytest.raises(UnsupportedCall, match="more than"):
        chosen(txn, HELD, looked([], [one], more=True))


def test_the_other_branch_is_judged_as_the_client_sent_it_and_never_runs() -> None:
    txn = upsert(version(K))
    then, otherwise = chosen(txn, NOBODY).other, chosen(txn, HELD).other
    assert then == rpc_pb2.TxnRequest(failure=txn.failure)
    assert otherwise == rpc_pb2.TxnRequest(failure=txn.success)


def test_of_an_empty_branch_there_is_nothing_to_judge() -> None:
    assert chosen(rpc_pb2.TxnRequest(compare=[version(K)], failure=[put(K)]), HELD).other is None
    assert chosen(rpc_pb2.TxnRequest(success=[delete(K)], failure=[OTHER]), HELD).other is not None


def test_the_client_is_told_which_branch_ran_and_nothing_where_it_came_too_late() -> None:
    branch = chosen(upsert(version(K)), HELD)
    answer = rpc_pb2.TxnResponse(succeeded=True, header=rpc_pb2.ResponseHeader(revision=9))
    told = branch.told(answer)
    assert told == rpc_pb2.TxnResponse(succeeded=False, header=rpc_pb2.ResponseHeader(revision=9))
    assert branch.told(rpc_pb2.TxnResponse(succeeded=False)) is None
    assert answer.succeeded
    assert chosen(upsert(version(K)), NOBODY).told(answer) == answer


def test_the_value_that_is_there_is_compared_where_it_is() -> None:
    assert chosen(upsert(value_is(K, value_of(K))), HELD).succeeded
    assert chosen(upsert(value_is(K, value_of(K))), PUBLIC).succeeded

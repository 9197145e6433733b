"""The model etcd against a real one: the same random calls, the same answers, refusals, keys and events.

Revisions are compared from where the real one stood when an example began.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import grpc
import pytest
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from greenroom.pb.etcd import kv_pb2, rpc_pb2
from tests.support.client import EtcdClient
from tests.support.etcd import Etcd
from tests.support.model_etcd import Compare, ModelEtcd, Refusal

LEASES = (11, 12)
NO_SUCH_LEASE = 13
KEYS = (b"\x01a", b"a", b"a/", b"a/b", b"b")
REVISION_FIELDS = ("create_revision", "mod_revision", "min_mod_revision", "revision")


@dataclass(frozen=True, slots=True)
class Revoke:
    lease: int


Call = rpc_pb2.TxnRequest | Revoke

keys = st.sampled_from(KEYS)
ends = st.sampled_from((b"", b"", b"", b"\0", b"a0", b"b", b"a"))
values = st.sampled_from((b"", b"1", b"2"))
revisions = st.integers(0, 8)
flags = st.sampled_from((False, False, False, True))
leases = st.sampled_from((0, 0, *LEASES, NO_SUCH_LEASE))
results = st.sampled_from((Compare.EQUAL, Compare.GREATER, Compare.LESS, Compare.NOT_EQUAL))
compares = st.one_of(
    st.builds(Compare, target=st.just(Compare.VERSION), result=results, key=keys, range_end=ends, version=revisions),
    st.builds(Compare, target=st.just(Compare.MOD), result=results, key=keys, range_end=ends, mod_revision=revisions),
    st.builds(
        Compare, target=st.just(Compare.CREATE), result=results, key=keys, range_end=ends, create_revision=revisions
    ),
    st.builds(Compare, target=st.just(Compare.VALUE), result=results, key=keys, range_end=ends, value=values),
    st.builds(Compare, target=st.just(Compare.LEASE), result=results, key=keys, range_end=ends, lease=leases),
)
ranges = st.builds(
    rpc_pb2.RangeRequest,
    key=keys,
    range_end=ends,
    limit=st.integers(0, 2),
    keys_only=flags,
    count_only=flags,
    min_mod_revision=st.sampled_from((0, 0, 3, 5)),
)
puts = st.builds(
    rpc_pb2.PutRequest, key=keys, value=values, lease=leases, prev_kv=flags, ignore_value=flags, ignore_lease=flags
)
deletes = st.builds(rpc_pb2.DeleteRangeRequest, key=keys, range_end=ends, prev_kv=flags)
leaves = st.one_of(
    st.builds(rpc_pb2.RequestOp, request_range=ranges),
    st.builds(rpc_pb2.RequestOp, request_put=puts),
    st.builds(rpc_pb2.RequestOp, request_put=puts),
    st.builds(rpc_pb2.RequestOp, request_delete_range=deletes),
)


def txns_of(operations: st.SearchStrategy[rpc_pb2.RequestOp]) -> st.SearchStrategy[rpc_pb2.TxnRequest]:
    branch = st.lists(operations, max_size=3)
    return st.builds(rpc_pb2.TxnRequest, compare=st.lists(compares, max_size=2), success=branch, failure=branch)


nested = st.builds(rpc_pb2.RequestOp, request_txn=txns_of(leaves))
calls = st.one_of(txns_of(leaves), txns_of(st.one_of(leaves, nested)), st.builds(Revoke, st.sampled_from(LEASES)))


@pytest.fixture(scope="module")
def real(session_etcd: Etcd) -> Iterator[EtcdClient]:
    with session_etcd.client() as client:
        yield client


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(calls, min_size=1, max_size=12))
def test_it_does_what_a_real_etcd_does(real: EtcdClient, sequence: list[Call]) -> None:
    real.wipe()
    start = real.revision() - 1
    model = ModelEtcd()
    for lease in LEASES:
        real.grant(lease=lease)
        model = model.grant(lease)
    for call in sequence:
        expected = answer_of(real, call if isinstance(call, Revoke) else moved(call, start))
        model, answer = modelled(model, call)
        assert moved(answer, start) == expected
    kvs = [item.message() for _, item in sorted(model.items.items())]
    assert [moved(kv, start) for kv in kvs] == list(real.everything().kvs)
    assert_same_events(real, start, model)


def assert_same_events(real: EtcdClient, start: int, model: ModelEtcd) -> None:
    expected = [
        (revision + start, change.key, moved(change.item.message(), start) if change.item else None)
        for revision, changes in model.log()
        for change in changes
    ]
    with real.watch(start_revision=start + 2) as log:
        events = log.wait_events(len(expected))
    seen = [
        (event.kv.mod_revision, event.kv.key, None if event.type == kv_pb2.Event.DELETE else event.kv)
        for event in events
    ]
    assert seen == expected


def test_it_counts_operations_as_a_real_etcd_does(real: EtcdClient) -> None:
    """The limit is for each level; what a Txn uses of it, a Txn nested in it no longer has."""
    real.wipe()
    put = rpc_pb2.RequestOp(request_put=rpc_pb2.PutRequest(key=b"k"))
    get = rpc_pb2.RequestOp(request_range=rpc_pb2.RangeRequest(key=b"k"))
    same = Compare(key=b"k", target=Compare.VERSION, result=Compare.GREATER, version=-1)
    for outer, inner in ((127, 0), (128, 0), (129, 0), (1, 127), (1, 128), (64, 64), (64, 65)):
        child = rpc_pb2.RequestOp(request_txn=rpc_pb2.TxnRequest(success=[get] * inner))
        txn = rpc_pb2.TxnRequest(compare=[same] * outer, success=[put, child] if inner else [put])
        _, modelled_answer = modelled(ModelEtcd(), txn)
        real_answer = answer_of(real, txn)
        assert isinstance(modelled_answer, tuple) == isinstance(real_answer, tuple), (outer, inner, real_answer)
        if isinstance(real_answer, tuple):
            assert modelled_answer == real_answer


Answer = Message | tuple[grpc.StatusCode, str | None] | None


def answer_of(real: EtcdClient, call: Call) -> Answer:
    try:
        if isinstance(call, Revoke):
            real.revoke(call.lease)
            return None
        return without_cluster(real.kv.Txn(call, timeout=20))
    except grpc.RpcError as error:
        return error.code(), error.details()


def modelled(model: ModelEtcd, call: Call) -> tuple[ModelEtcd, Answer]:
    try:
        return (model.revoke(call.lease), None) if isinstance(call, Revoke) else model.txn(call)
    except Refusal as refusal:
        return model, (refusal.code, refusal.text)


def without_cluster(answer: rpc_pb2.TxnResponse) -> rpc_pb2.TxnResponse:
    revision = answer.header.revision
    answer.header.Clear()
    answer.header.revision = revision
    return answer


Thing = TypeVar("Thing")


def moved(thing: Thing, by: int) -> Thing:
    """The same message with every revision `by` later; 0, which means none, stays. Anything else as it is."""
    if not isinstance(thing, Message):
        return thing
    copied = type(thing)()
    copied.CopyFrom(thing)
    for message in every_message(copied):
        for name in REVISION_FIELDS:
            if name in message.DESCRIPTOR.fields_by_name and getattr(message, name) and is_set(message, name):
                setattr(message, name, getattr(message, name) + by)
    return copied


def is_set(message: Message, name: str) -> bool:
    """Not a member of a oneof that stands for another."""
    oneof = message.DESCRIPTOR.fields_by_name[name].containing_oneof
    return oneof is None or message.WhichOneof(oneof.name) == name


def every_message(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else (value,):
                yield from every_message(inner)

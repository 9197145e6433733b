"""What is told at a glance, and what is left to the full examination."""

from itertools import product

import pytest
from google.protobuf.message import Message

from greenroom.core.glance import LARGEST_TXN_BYTES, Glance
from greenroom.pb.etcd import rpc_pb2

GLANCE = Glance((b"v1/instances/", b"v1/mdc/"))
Range, Put, Delete, Txn = (
    rpc_pb2.RangeRequest,
    rpc_pb2.PutRequest,
    rpc_pb2.DeleteRangeRequest,
    rpc_pb2.TxnRequest,
)
Operation, Compare = rpc_pb2.RequestOp, rpc_pb2.Compare

HARMLESS_KEYS = (b"\x02", b"k", b"v1/mdc", b"v1/md", b"w" * 127, b"\xff")
OTHER_KEYS = (b"", b"\0", b"\x01", b"\x01greenroom/budget", b"v1/mdc/", b"v1/mdc/a/b", b"v1/instances/x", b"k" * 128)


def plain(request: Message) -> bool:
    own = request.SerializeToString()
    match request:
        case rpc_pb2.TxnRequest():
            return GLANCE.txn_is_plain(own)
        case rpc_pb2.RangeRequest():
            return GLANCE.range_is_plain(own)
        case rpc_pb2.DeleteRangeRequest():
            return GLANCE.delete_is_plain(own)
        case _:
            return GLANCE.put_is_plain(own)


def of_key(key: bytes) -> list[Message]:
    """All that can be about one key."""
    put, get, delete = Put(key=key, value=b"v"), Range(key=key), Delete(key=key)
    return [
        put,
        get,
        delete,
        Txn(success=[Operation(request_put=put)]),
        Txn(failure=[Operation(request_range=get)]),
        Txn(success=[Operation(request_delete_range=delete)]),
        Txn(compare=[Compare(key=key, target=Compare.MOD, mod_revision=7)]),
    ]


@pytest.mark.parametrize("key", HARMLESS_KEYS)
def test_a_key_that_nobody_minds_is_plain_wherever_it_stands(key: bytes) -> None:
    assert [plain(request) for request in of_key(key)] == [True] * 7


@pytest.mark.parametrize("key", OTHER_KEYS)
def test_any_other_key_is_not(key: bytes) -> None:
    assert [plain(request) for request in of_key(key)] == [False] * 7


def test_one_key_among_many_is_enough() -> None:
    parts = [part for key in HARMLESS_KEYS for part in of_key(key) if isinstance(part, Txn)]
    whole = Txn()
    for part in parts:
        whole.MergeFrom(part)
    assert plain(whole)
    for key in OTHER_KEYS:
        for part in of_key(key):
            if isinstance(part, Txn):
                mixed = Txn()
                mixed.CopyFrom(whole)
                mixed.MergeFrom(part)
                assert not plain(mixed)


@pytest.mark.parametrize(
    ("request_", "is_plain"),
    [
        (Range(key=b"k", range_end=b"l"), True),
        (Range(key=b"k", range_end=b"l", keys_only=True, count_only=True), True),
        (Range(key=b"k", serializable=True), True),
        (Range(key=b"k", sort_target=1), False),
        (Range(key=b"k", sort_target=5), False),
        (Range(key=b"k", sort_order=3), False),
        (Range(key=b"k", range_end=b"l", limit=3, revision=9), True),
        (Range(key=b"k", range_end=b"l", limit=-3), False),
        (Range(key=b"k", max_mod_revision=3), False),
        (Range(key=b"k", range_end=b"\0"), True),
        (Delete(key=b"k", range_end=b"l", prev_kv=True), True),
        (Range(key=b"k", range_end=b"l" * 128), True),
        (Txn(compare=[Compare(key=b"k", result=3, target=4, lease=1)]), True),
        (Txn(compare=[Compare(key=b"k", result=4, target=4, lease=1)]), False),
        (Txn(compare=[Compare(key=b"k", target=5)]), False),
        (Txn(compare=[Compare(key=b"k", target=128)]), False),
        (Txn(compare=[Compare(key=b"k", range_end=b"\0", target=1)]), True),
        (Txn(success=[Operation()]), False),
        (Txn(success=[Operation(request_put=Put())]), False),
        (Txn(success=[Operation(request_txn=Txn())]), False),
        (Txn(compare=[Compare()], failure=[Operation(request_put=Put(key=b"k"))]), True),
        (Txn(compare=[Compare()], failure=[Operation(request_put=Put(key=b"\x01"))]), False),
        (Txn(success=[Operation(request_range=Range(key=b"k", sort_target=5))]), False),
        (Txn(success=[Operation(request_put=Put(key=b"k", value=bytes(10_000)))]), True),
        (Txn(success=[Operation(request_put=Put(key=b"k", value=bytes(LARGEST_TXN_BYTES)))]), False),
        (Txn(), True),
    ],
)
def test_what_has_more_to_it_than_a_key_is_looked_at(request_: Message, *, is_plain: bool) -> None:
    assert plain(request_) is is_plain


@pytest.mark.parametrize("key", HARMLESS_KEYS)
def test_usual_puts_are_plain(key: bytes) -> None:
    leases, sizes = (0, 1, 127, 128, 7_587_866_000_000_000_000, (1 << 63) - 1), (0, 1, 127, 128, 300, 16_383)
    for lease, size, prev_kv in product(leases, sizes, (False, True)):
        assert plain(Put(key=key, value=bytes(size), lease=lease, prev_kv=prev_kv))


@pytest.mark.parametrize(
    "rest",
    [
        b"\x0a\x01l",
        b"\x12",
        b"\x12\x02v",
        b"\x12\x81\x00v",
        b"\x12\x80\x80\x01" + bytes(1 << 14),
        b"\x12\x01v\x12\x01v",
        b"\x12\x01v\x18",
        b"\x12\x01v\x18\x00",
        b"\x12\x01v\x18\x81\x00",
        b"\x12\x01v\x18\x01\x18\x02",
        b"\x12\x01v\x18" + b"\xff" * 9 + b"\x01",
        b"\x12\x01v\x20\x00",
        b"\x12\x01v\x20\x01\x18\x01",
        b"\x12\x01v\x38\x02",
        b"\x12\x01v\x78\x01",
        b"\x78\x01",
    ],
)
def test_bytes_that_could_be_written_shorter_or_read_otherwise_are_not_plain(rest: bytes) -> None:
    for judge in (GLANCE.put_is_plain, GLANCE.range_is_plain, GLANCE.delete_is_plain):
        assert judge(b"\x0a\x01k")
        assert not judge(b"\x0a\x01k" + rest)


@pytest.mark.parametrize("message", [b"", b"\x0a", b"\x0a\x02k", b"\x0a\x00\x12\x01v", b"\x0a\x81\x00k", b"\x12\x01v"])
def test_bytes_without_a_key_in_its_place_are_not_plain(message: bytes) -> None:
    for judge in (GLANCE.put_is_plain, GLANCE.range_is_plain, GLANCE.delete_is_plain):
        assert not judge(message)


def test_with_nothing_gated_only_reserved_keys_are_looked_at() -> None:
    glance = Glance(())
    assert glance.range_is_plain(b"\x0a\x07v1/mdc/")
    assert not glance.range_is_plain(b"\x0a\x01\x01")

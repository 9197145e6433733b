"""The words of Txns, as etcd gets them."""

import pytest

from greenroom.core import txns
from greenroom.pb.etcd import rpc_pb2
from tests.support.instances import INSTANCE, LEASE, RECORD, TEXT, K


@pytest.mark.parametrize(
    ("compare", "text"),
    [
        (txns.unchanged(K, 7), "mod(K)=7"),
        (txns.unchanged(K, 0), "mod(K)=0"),
        (txns.absent(K), "ver(K)=0"),
        (txns.exists(K), "ver(K)>0"),
        (txns.no_newer_shadow(INSTANCE, 100), "mod(S*)<101"),
        (txns.no_newer_rollout_hold(100), "mod(H)<101"),
        (txns.none_created(b"v1/mdc/", 100), "create([b'v1/mdc/', b'v1/mdc0'))<101"),
        (txns.none_newer(b"v1/mdc/", 100), "mod([b'v1/mdc/', b'v1/mdc0'))<101"),
    ],
)
def test_compares(compare: rpc_pb2.Compare, text: str) -> None:
    assert TEXT.compare(compare) == text


def test_a_compare_with_zero_is_on_the_wire() -> None:
    """etcd refuses a compare whose value is not set, and zero is only sent because it is in a oneof."""
    assert txns.absent(b"k").SerializeToString() == b"\x1a\x01k" + b"\x20\x00"
    assert txns.unchanged(b"k", 0).SerializeToString() == b"\x10\x02\x1a\x01k" + b"\x30\x00"


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        (txns.put(K, b"v", LEASE), "put K lease"),
        (txns.keep(K, b"v"), "put K keep"),
        (txns.keep_record(INSTANCE, b"v"), "put R keep"),
        (txns.delete(K), "del K"),
        (txns.delete(b"a", b"b"), "del [b'a', b'b')"),
        (txns.delete_shadows(INSTANCE), "del S*"),
        (txns.look(RECORD), "get R keys"),
        (txns.look_for_newer(b"a", 100), "get [b'a', b'b') keys limit=1 min_mod_revision=101"),
        (txns.nested([txns.delete(K), txns.keep(K, b"v")]), "( || del K; put K keep)"),
    ],
)
def test_operations(operation: rpc_pb2.RequestOp, text: str) -> None:
    assert TEXT.operation(operation) == text


def test_puts_carry_their_value() -> None:
    assert txns.put(K, b"v", LEASE).request_put.value == b"v"
    assert txns.keep(K, b"v").request_put.value == b"v"
    assert txns.keep_record(INSTANCE, b"v").request_put.value == b"v"

"""What etcd is asked about a client's rights: all that the client names, and nothing that could be carried out."""

from greenroom.core import txns
from greenroom.core.compares import always, holds
from greenroom.core.keyspace import Key
from greenroom.core.permissions import permission_probes, read_probes, writes_gated_keys
from greenroom.core.ranges import leaves
from greenroom.core.worker_calls import Uses, as_txn, examine
from greenroom.pb.etcd import kv_pb2, rpc_pb2
from tests.support.instances import GATED_KEYS, LEASE, LORA, K, value_of

OTHER = Key(b"team/key")
READ = txns.Operation(request_range=rpc_pb2.RangeRequest(key=K))
PUT = txns.put(K, value_of(K), LEASE)


def uses_of(txn: rpc_pb2.TxnRequest) -> Uses:
    uses = examine(txn, GATED_KEYS)
    assert uses is not None
    return uses


def probes_of(txn: rpc_pb2.TxnRequest) -> list[rpc_pb2.TxnRequest]:
    return list(permission_probes(txn, uses_of(txn)))


def test_both_branches_are_asked_about_at_once_under_the_clients_compares() -> None:
    txn = rpc_pb2.TxnRequest(compare=[txns.absent(OTHER)], success=[PUT], failure=[READ])
    assert probes_of(txn) == [rpc_pb2.TxnRequest(compare=[always(txns.absent(OTHER))], failure=[PUT, READ])]


def test_branches_that_write_are_asked_about_one_by_one() -> None:
    """In one branch etcd would refuse the same key twice, which the client never asked for."""
    txn = rpc_pb2.TxnRequest(compare=[txns.absent(K)], success=[PUT], failure=[PUT])
    assert probes_of(txn) == [rpc_pb2.TxnRequest(compare=[always(txns.absent(K))], failure=[PUT])] * 2


def test_more_operations_than_fit_are_asked_about_one_by_one() -> None:
    reads = [READ] * 100
    found = probes_of(rpc_pb2.TxnRequest(success=reads, failure=reads))
    assert [len(probe.failure) for probe in found] == [100, 100]


def test_branches_beside_a_nested_txn_are_asked_about_one_by_one() -> None:
    """What is around it is taken off what etcd lets it do."""
    nested = txns.nested([txns.look(OTHER)])
    found = probes_of(rpc_pb2.TxnRequest(success=[PUT, nested], failure=[READ]))
    assert [list(probe.failure) for probe in found] == [[PUT, nested], [READ]]


def test_only_what_the_client_names_is_asked_about() -> None:
    """A user that may delete its adapters, and not touch the record, is denied by its call, which the log tells of."""
    delete = rpc_pb2.DeleteRangeRequest(key=K + b"/", range_end=K + b"0")
    [probe] = probes_of(as_txn(delete))
    assert [leaf.key for leaf in leaves(probe)] == [delete.key]
    [probe] = probes_of(as_txn(rpc_pb2.PutRequest(key=K, value=value_of(K), lease=LEASE)))
    assert [leaf.key for leaf in leaves(probe)] == [K]


def test_as_many_compares_as_etcd_takes_are_asked_about_with_no_more() -> None:
    txn = rpc_pb2.TxnRequest(compare=[txns.absent(OTHER)] * txns.MAX_OPERATIONS, success=[PUT], failure=[PUT])
    assert [len(probe.compare) for probe in probes_of(txn)] == [txns.MAX_OPERATIONS] * 2


def test_no_probe_can_be_carried_out() -> None:
    """Its compares hold whatever there is, and its Then, which etcd runs, is empty."""
    txn = rpc_pb2.TxnRequest(compare=[txns.absent(OTHER)], success=[PUT], failure=[READ])
    there = kv_pb2.KeyValue(key=OTHER, version=1)
    for probe in probes_of(txn):
        assert not probe.success
        assert all(holds(compare, found) for compare in probe.compare for found in ([], [there]))


def test_many_keys_are_asked_about_in_parts() -> None:
    keys = [b"k%d" % number for number in range(200)]
    found = list(read_probes(keys))
    assert [operation.request_range.key for probe in found for operation in probe.success] == keys
    assert [probe.compare[0].key for probe in found] == [keys[0], keys[128]]
    assert list(read_probes([])) == []


def test_only_writes_of_gated_keys_count() -> None:
    assert writes_gated_keys(as_txn(rpc_pb2.PutRequest(key=K)), GATED_KEYS)
    assert writes_gated_keys(as_txn(rpc_pb2.DeleteRangeRequest(key=K + b"/", range_end=K + b"0")), GATED_KEYS)
    assert writes_gated_keys(rpc_pb2.TxnRequest(failure=[txns.delete(LORA)]), GATED_KEYS)
    read = rpc_pb2.TxnRequest(compare=[txns.absent(K)], success=[txns.put(OTHER, b"", 0)], failure=[READ])
    assert not writes_gated_keys(read, GATED_KEYS)

"""Whether a client may do what it asks for, asked of etcd before anything is decided for it.

What is sent for a gated call names shadows, on which every worker's user has rights, and what is decided is decided by
reads of the proxy's own. So etcd would neither judge the keys that the client named, nor those that a release writes
for it later. It does here: a Txn with all that the client asked for, as an Else under compares that always hold. etcd
checks the permissions of all of it, as of the client's own call and in the same words, and carries nothing out.

The rule: no key is in it but those that the client named. One that may write its keys, and not have them held, is to be
told apart from one that may not write them.
"""

from collections.abc import Iterator, Sequence

from greenroom.core import txns
from greenroom.core.compares import always, never
from greenroom.core.ranges import leaves
from greenroom.core.templates import GatedKeys
from greenroom.core.worker_calls import Uses
from greenroom.pb.etcd import rpc_pb2


def permission_probes(txn: rpc_pb2.TxnRequest, uses: Uses) -> Iterator[rpc_pb2.TxnRequest]:
    """The Txns to send as the client, one after the other, before its call: any error is the answer to it."""
    compares = [always(compare) for compare in txn.compare]
    for branch in _branches(txn, uses):
        yield rpc_pb2.TxnRequest(compare=compares, failure=branch)


def read_probes(keys: Sequence[bytes]) -> Iterator[rpc_pb2.TxnRequest]:
    """The Txns to send as the client to learn whether it may read all of these keys; they read nothing."""
    for start in range(0, len(keys), txns.MAX_OPERATIONS):
        asked = keys[start : start + txns.MAX_OPERATIONS]
        yield rpc_pb2.TxnRequest(compare=[never(asked[0])], success=[txns.look(key) for key in asked])


def writes_gated_keys(txn: rpc_pb2.TxnRequest, gated_keys: GatedKeys) -> bool:
    """Whether a call changes gated keys, or only reads and compares them."""
    return any(
        gated_keys.overlaps(leaf.key, b"" if isinstance(leaf, rpc_pb2.PutRequest) else leaf.range_end)
        for leaf in leaves(txn)
        if isinstance(leaf, rpc_pb2.PutRequest | rpc_pb2.DeleteRangeRequest)
    )


def _branches(txn: rpc_pb2.TxnRequest, uses: Uses) -> Iterator[list[txns.Operation]]:
    """What etcd is to judge: all at once where it can be one branch, in which etcd forbids to write a key twice."""
    both = [*txn.success, *txn.failure]
    # A nested Txn has only the room that the operations around it leave.
    is_nested = any(operation.HasField("request_txn") for operation in both)
    if is_nested or uses.writes_in_else or len(both) > txns.MAX_OPERATIONS:
        yield list(txn.success)
        yield list(txn.failure)
    else:
        yield both

"""A Txn whose Else writes, as the one of its branches that etcd would run.

What is sent for a gated call also fails when an instance changed state meanwhile, and an Else that writes must not run
then; nor one that reads at a revision, which etcd may refuse, and with it the whole. So it is decided beforehand which
branch is to run, by a look at what the client compares, and that branch is sent as a call of its own, which is gated
like any other and does nothing at a moment at which etcd would not run it: Then under the client's compares, Else under
a guard, that what made one of them fail is as it was. Nothing is nested, so etcd judges every key of the client's. A
branch that came too late is decided again.

What does not run, etcd judges too, as part of the whole; here by a Txn of its own that never comes to run it. Under the
guard alone the Else has etcd's full number of compares less one, however many the client made: whether it may read what
it compares is asked before (see `permissions`), so that nobody learns from which branch ran what it may not read. What
etcd does not see any more is the size of the whole: each branch may be as large as a request.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from greenroom.core.compares import guard, looking_at
from greenroom.core.keyspace import Key
from greenroom.core.snapshot import Snapshot
from greenroom.core.txns import Compare, Operation
from greenroom.core.worker_calls import Uses
from greenroom.pb.etcd import rpc_pb2


@dataclass(frozen=True, slots=True)
class Alternative:
    """The branch that is to run, as a call without an Else. `succeeded`: whether it is the Then."""

    call: rpc_pb2.TxnRequest
    succeeded: bool
    other: rpc_pb2.TxnRequest | None
    """For etcd to judge: the other branch, which never runs. None where it is empty."""

    def told(self, answer: rpc_pb2.TxnResponse) -> rpc_pb2.TxnResponse | None:
        """The client's answer, from that to `call`; None where it came too late, and nothing was written."""
        if not answer.succeeded:
            return None
        told = rpc_pb2.TxnResponse()
        told.CopyFrom(answer)
        told.succeeded = self.succeeded
        return told


def look(txn: rpc_pb2.TxnRequest, uses: Uses) -> rpc_pb2.TxnRequest | None:
    """The read of what the client compares beside gated keys, to be made as the client; None where that is nothing."""
    reads = [looking_at(compare) for compare in _others(txn, uses)]
    return rpc_pb2.TxnRequest(success=reads) if reads else None


def alternative(
    txn: rpc_pb2.TxnRequest, uses: Uses, snapshot: Snapshot, looked: rpc_pb2.TxnResponse | None
) -> Alternative:
    """Which branch is to run. `looked` is the answer to `look`; it and the snapshot may be of different moments.

    UnsupportedCall where a range was compared that is too large to look at.
    """
    for compare, found in _found(txn, uses, snapshot, looked):
        if guarded := guard(compare, found.kvs, more=found.more):
            return Alternative(_call([guarded], txn.failure), False, _judged(txn.success))
    return Alternative(_call(txn.compare, txn.success), True, _judged(txn.failure))


def _others(txn: rpc_pb2.TxnRequest, uses: Uses) -> Iterator[Compare]:
    """The compares whose keys the snapshot does not have: of other keys, and of ranges, which are what is public."""
    return (compare for compare in txn.compare if compare.range_end or compare.key not in uses.keys)


def _found(
    txn: rpc_pb2.TxnRequest, uses: Uses, snapshot: Snapshot, looked: rpc_pb2.TxnResponse | None
) -> Iterator[tuple[Compare, rpc_pb2.RangeResponse]]:
    """Each compare with what there is of its keys."""
    answers = iter(looked.responses if looked else ())
    for compare in txn.compare:
        if not compare.range_end and compare.key in uses.keys:
            kv = snapshot.present(Key(compare.key))
            yield compare, rpc_pb2.RangeResponse(kvs=[kv] if kv else [])
        else:
            yield compare, next(answers).response_range


def _call(compares: Iterable[Compare], branch: Iterable[Operation]) -> rpc_pb2.TxnRequest:
    return rpc_pb2.TxnRequest(compare=compares, success=branch)


def _judged(branch: Sequence[Operation]) -> rpc_pb2.TxnRequest | None:
    """A branch as the client sent it, its keys not mapped: the client's own names are to be judged.

    It is an Else, and nothing is compared, so it never runs.
    """
    return rpc_pb2.TxnRequest(failure=branch) if branch else None

"""From etcd's answer to what was sent instead, back to what etcd would have answered to the client's own call.

Answers are copied and edited in place, so what a newer etcd adds to them reaches the client. A lost fence is told from
a compare of the client's that failed by the reads in the Else, which are of the same revision as the decision.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from greenroom.core import txns
from greenroom.core.gating import Gated
from greenroom.core.keyspace import held_key, is_reserved, shadow_key
from greenroom.core.templates import GatedKey
from greenroom.pb.etcd import kv_pb2, rpc_pb2


@dataclass(frozen=True, slots=True)
class FenceLost:
    """Something that the decision was taken from has changed: read and decide again."""


def settle(gated: Gated, answer: rpc_pb2.TxnResponse) -> rpc_pb2.TxnResponse | FenceLost:
    """The client's answer, as etcd would have given it; or FenceLost, where nothing was written."""
    restored = rpc_pb2.TxnResponse()
    restored.CopyFrom(answer)
    if not answer.succeeded:
        probes = len(gated.fence)
        found = [response.response_range.kvs for response in answer.responses[-probes:]]
        if not all(_holds(compare, kvs) for compare, kvs in zip(gated.fence, found, strict=True)):
            return FenceLost()
        del restored.responses[-probes:]
    else:
        _narrow(restored, gated.widths)
    for response in restored.responses:
        restore_keys(response)
    return restored


def _holds(compare: txns.Compare, found: Sequence[kv_pb2.KeyValue]) -> bool:
    """Whether a compare of the fence holds, by what its probe found."""
    if compare.range_end:
        return not found
    if compare.target == txns.Compare.MOD:
        return (found[0].mod_revision if found else 0) == compare.mod_revision
    return bool(found) == (compare.result == txns.Compare.GREATER)


def _narrow(answer: rpc_pb2.TxnResponse, widths: Sequence[int]) -> None:
    """One response for each of the client's operations, and none for ours."""
    given = list(answer.responses)
    del answer.responses[:]
    at = 0
    for width in widths:
        first = given[at]
        for other in given[at + 1 : at + width]:
            _join(first.response_delete_range, other.response_delete_range)
        answer.responses.append(first)
        at += width


def _join(deleted: rpc_pb2.DeleteRangeResponse, held: rpc_pb2.DeleteRangeResponse) -> None:
    """What was deleted publicly, and with it what was held: as one deletion, in order, of the revision that did it."""
    deleted.deleted += held.deleted
    previous = sorted((*deleted.prev_kvs, *held.prev_kvs), key=lambda kv: held_key(kv.key) or kv.key)
    del deleted.prev_kvs[:]
    deleted.prev_kvs.extend(previous)
    if held.header.revision > deleted.header.revision:
        deleted.header.CopyFrom(held.header)


def restore_keys(response: rpc_pb2.ResponseOp) -> None:
    """Every shadow's name in one response turned back into its key's."""
    match response.WhichOneof("response"):
        case "response_range":
            restore_kvs(response.response_range.kvs)
        case "response_put":
            if response.response_put.HasField("prev_kv"):
                restore_kvs([response.response_put.prev_kv])
        case "response_delete_range":
            restore_kvs(response.response_delete_range.prev_kvs)


def restore_kvs(kvs: Iterable[kv_pb2.KeyValue]) -> None:
    """Every shadow's name turned back, in place."""
    for kv in kvs:
        kv.key = held_key(kv.key) or kv.key


def read_txn(request: rpc_pb2.RangeRequest, gated: GatedKey) -> rpc_pb2.TxnRequest:
    """A read of one gated key: its shadow and itself at one revision, with the caller's options."""
    txn = rpc_pb2.TxnRequest()
    for key in (shadow_key(gated.instance, gated.key), gated.key):
        read = txn.success.add().request_range
        read.CopyFrom(request)
        read.key = key
    return txn


def read_answer(answer: rpc_pb2.TxnResponse) -> rpc_pb2.RangeResponse:
    """The answer to the read: the shadow's where there is one. The header is the Txn's own, which has the revision."""
    shadow, public = (response.response_range for response in answer.responses)
    found = rpc_pb2.RangeResponse()
    found.CopyFrom(shadow if shadow.count else public)
    restore_kvs(found.kvs)
    found.header.CopyFrom(answer.header)
    return found


def lease_answer(answer: rpc_pb2.LeaseTimeToLiveResponse) -> rpc_pb2.LeaseTimeToLiveResponse:
    """The lease's keys as its owner knows them: shadows under their keys' names, nothing else of ours, once each."""
    restored = rpc_pb2.LeaseTimeToLiveResponse()
    restored.CopyFrom(answer)
    own = (held_key(key) or key for key in answer.keys)
    names = dict.fromkeys(key for key in own if not is_reserved(key))
    del restored.keys[:]
    restored.keys.extend(names)
    return restored


def without_reserved_keys(answer: rpc_pb2.LeaseTimeToLiveResponse) -> rpc_pb2.LeaseTimeToLiveResponse:
    """The lease's keys as everybody else knows them."""
    restored = rpc_pb2.LeaseTimeToLiveResponse()
    restored.CopyFrom(answer)
    del restored.keys[:]
    restored.keys.extend(key for key in answer.keys if not is_reserved(key))
    return restored

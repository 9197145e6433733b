"""A Range through a preview: one Txn that reads the client's range, the held keys of it, and perhaps the records.

The rule: all of it is of one revision, which is the answer's. What etcd would do with the whole (count it, cut it off
at a limit) is done here after the parts are joined; what no reader of a registry asks for is refused.
"""

from collections.abc import Iterator, Set

from greenroom.core.keyspace import InstanceId, held_key, holder, in_range, record_key
from greenroom.core.preview import ALL_RECORDS, NO_INSTANCES, View
from greenroom.core.ranges import clip_range
from greenroom.errors import UnsupportedCall
from greenroom.pb.etcd import kv_pb2, rpc_pb2

_REFUSED = ("min_mod_revision", "max_mod_revision", "min_create_revision", "max_create_revision")
_SORTED_AS_IT_IS = (rpc_pb2.RangeRequest.NONE, rpc_pb2.RangeRequest.ASCEND)


def read_txn(request: rpc_pb2.RangeRequest, view: View) -> rpc_pb2.TxnRequest | None:
    """What to send for a client's Range; None where it shows just what etcd itself would answer.

    UnsupportedCall for options that would need all that etcd's own sorting and filtering does.
    """
    clipped = clip_range(request)
    shadows = view.shadows(clipped.key, clipped.range_end)
    if shadows is None and not view.only:
        return None
    _check_options(request)
    txn = rpc_pb2.TxnRequest()
    _read(txn, clipped)
    if shadows is not None:
        _read(txn, clipped, *shadows)
        if view.by_records:
            one = record_key(holder(shadows[0])) if not clipped.range_end else None
            records = txn.success.add().request_range
            records.key, records.range_end = (one, b"") if one else ALL_RECORDS
            records.revision, records.serializable = clipped.revision, clipped.serializable
    return txn


def read_answer(request: rpc_pb2.RangeRequest, view: View, answer: rpc_pb2.TxnResponse) -> rpc_pb2.RangeResponse:
    """The answer to the client's Range, made of etcd's. The header is the Txn's own, which has the revision."""
    found, *others = (response.response_range for response in answer.responses)
    matching = view.matching(others[1].kvs) if len(others) > 1 else NO_INSTANCES
    shown = {kv.key: kv for kv in found.kvs if view.shows_public(kv)}
    if others:
        shown.update((kv.key, kv) for kv in _held(request, view, others[0], matching))
    kvs = [shown[key] for key in sorted(shown)]
    found.header.CopyFrom(answer.header)
    del found.kvs[:]
    found.count, found.more = len(kvs), False
    if not request.count_only:
        found.more = 0 < request.limit < len(kvs)
        found.kvs.extend(kvs[: request.limit] if request.limit > 0 else kvs)
    return found


def _held(
    request: rpc_pb2.RangeRequest, view: View, shadows: rpc_pb2.RangeResponse, matching: Set[InstanceId]
) -> Iterator[kv_pb2.KeyValue]:
    """The shadows that are shown, under their keys' names."""
    for kv in shadows.kvs:
        key = held_key(kv.key)
        if key is None or not in_range(key, request.key, request.range_end):
            continue
        if view.shows_held(holder(kv.key), matching):
            kv.key = key
            yield kv


def _read(txn: rpc_pb2.TxnRequest, request: rpc_pb2.RangeRequest, key: bytes = b"", range_end: bytes = b"") -> None:
    """The client's own read, of its own place or of another; as a whole, for it is joined before it is cut."""
    read = txn.success.add().request_range
    read.CopyFrom(request)
    if key:
        read.key, read.range_end = key, range_end
    read.keys_only, read.count_only, read.limit = request.keys_only or request.count_only, False, 0
    read.ClearField("sort_order")


def _check_options(request: rpc_pb2.RangeRequest) -> None:
    given = [name for name in _REFUSED if getattr(request, name)]
    if request.sort_order not in _SORTED_AS_IT_IS or request.sort_target != rpc_pb2.RangeRequest.KEY:
        given.append("sort_target or sort_order")
    if given:
        raise UnsupportedCall(f"a preview gives keys in their order, and takes no {', '.join(given)}")

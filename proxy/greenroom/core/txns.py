"""The words that Txns are written in: compares and operations, one function each, in etcd's own messages."""

from greenroom.core.keyspace import ROLLOUT_HOLDS, InstanceId, Key, prefix_end, record_key, shadow_prefix
from greenroom.pb.etcd import rpc_pb2

Compare = rpc_pb2.Compare
Operation = rpc_pb2.RequestOp

MAX_OPERATIONS = 128
"""etcd's own limit on the compares, the Then and the Else of a Txn, each counted alone."""


def unchanged(key: bytes, mod_revision: int) -> Compare:
    """The key was last written at this revision; 0: it is absent."""
    return Compare(key=key, target=Compare.MOD, result=Compare.EQUAL, mod_revision=mod_revision)


def absent(key: bytes) -> Compare:
    """The key does not exist. etcd compares a missing key as one of version 0."""
    return Compare(key=key, target=Compare.VERSION, result=Compare.EQUAL, version=0)


def exists(key: bytes) -> Compare:
    """The key exists."""
    return Compare(key=key, target=Compare.VERSION, result=Compare.GREATER, version=0)


def none_newer(prefix: bytes, revision: int) -> Compare:
    """No key of the prefix was written after `revision`. A deletion does not show here."""
    end = prefix_end(prefix)
    return Compare(key=prefix, range_end=end, target=Compare.MOD, result=Compare.LESS, mod_revision=revision + 1)


def none_created(prefix: bytes, revision: int) -> Compare:
    """No key of the prefix was created after `revision`, whatever was written to those that there are."""
    end = prefix_end(prefix)
    return Compare(key=prefix, range_end=end, target=Compare.CREATE, result=Compare.LESS, create_revision=revision + 1)


def no_newer_shadow(instance: InstanceId, revision: int) -> Compare:
    """No held key of the instance was written after `revision`."""
    return none_newer(shadow_prefix(instance), revision)


def no_newer_rollout_hold(revision: int) -> Compare:
    """No rollout hold was created after `revision`; one lifted and created again shows too."""
    return none_newer(ROLLOUT_HOLDS, revision)


def put(key: bytes, value: bytes, lease: int) -> Operation:
    """Write a key under a lease."""
    return Operation(request_put=rpc_pb2.PutRequest(key=key, value=value, lease=lease))


def keep(key: bytes, value: bytes) -> Operation:
    """Write an existing key and leave its lease as it is, so no permission on the lease's other keys is needed."""
    return Operation(request_put=rpc_pb2.PutRequest(key=key, value=value, ignore_lease=True))


def keep_record(instance: InstanceId, value: bytes) -> Operation:
    """Rewrite a record that exists."""
    return keep(record_key(instance), value)


def delete(key: bytes, range_end: bytes = b"") -> Operation:
    """Delete a key or a range."""
    return Operation(request_delete_range=rpc_pb2.DeleteRangeRequest(key=key, range_end=range_end))


def delete_shadows(instance: InstanceId) -> Operation:
    """Delete every held key of an instance."""
    prefix = shadow_prefix(instance)
    return delete(prefix, prefix_end(prefix))


def look(key: Key | bytes) -> Operation:
    """Whether a key exists and when it was written, without its value."""
    return Operation(request_range=rpc_pb2.RangeRequest(key=key, keys_only=True))


def look_for_newer(prefix: bytes, revision: int) -> Operation:
    """One key of the prefix written after `revision`, if there is any, without its value."""
    return Operation(
        request_range=rpc_pb2.RangeRequest(
            key=prefix, range_end=prefix_end(prefix), keys_only=True, min_mod_revision=revision + 1, limit=1
        )
    )


def nested(operations: list[Operation]) -> Operation:
    """Operations as one: they count as one towards etcd's limit. Only for keys of our own choosing."""
    return Operation(request_txn=rpc_pb2.TxnRequest(success=operations))

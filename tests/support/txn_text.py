"""Prints Txns in one line of the protocol's own notation, so that a test can say word by word what must be sent.

    mod(R)=7 | ver(S(K))>0 || put S(K) lease; put R keep || get R keys; get S(K) keys

Compares, Then and Else stand between double bars; an empty Else is left out. R is the instance's record, S(x) the
shadow of x, S* all its shadows, H all rollout holds, H/id one of them, B the budget; other keys go by the names that
the test gives them. `lease` and `keep` tell under which lease a put is made: the instance's, or the one it had.

The rule: nothing of the code under test is used, not even its prefixes.
"""

from collections.abc import Iterable, Mapping

from greenroom.core.record import Record
from greenroom.pb.etcd import rpc_pb2

ROOT = b"\x01greenroom/"
RESULTS = {
    rpc_pb2.Compare.EQUAL: "=",
    rpc_pb2.Compare.GREATER: ">",
    rpc_pb2.Compare.LESS: "<",
    rpc_pb2.Compare.NOT_EQUAL: "!=",
}
TARGETS = {
    rpc_pb2.Compare.VERSION: ("ver", "version"),
    rpc_pb2.Compare.CREATE: ("create", "create_revision"),
    rpc_pb2.Compare.MOD: ("mod", "mod_revision"),
    rpc_pb2.Compare.VALUE: ("value", "value"),
    rpc_pb2.Compare.LEASE: ("lease", "lease"),
}
READ_OPTIONS = ("keys_only", "count_only", "limit", "revision", "min_mod_revision")


class TxnText:
    """Writes the Txns about one instance, whose keys have these names."""

    def __init__(self, instance: str, names: Mapping[bytes, str]) -> None:
        self.instance = instance.encode()
        self.lease = int(instance, 16)
        self.names = names

    def txn(self, txn: rpc_pb2.TxnRequest) -> str:
        """The whole Txn."""
        parts = [" | ".join(map(self.compare, txn.compare)), self.operations(txn.success)]
        if txn.failure:
            parts.append(self.operations(txn.failure))
        return " || ".join(parts)

    def compare(self, compare: rpc_pb2.Compare) -> str:
        word, field = TARGETS[compare.target]
        assert compare.WhichOneof("target_union") == field, "the compared field is not the one that the target names"
        subject = self.key(compare.key, compare.range_end)
        return f"{word}({subject}){RESULTS[compare.result]}{getattr(compare, field)}"

    def operations(self, operations: Iterable[rpc_pb2.RequestOp]) -> str:
        return "; ".join(map(self.operation, operations))

    def operation(self, operation: rpc_pb2.RequestOp) -> str:
        match operation.WhichOneof("request"):
            case "request_put":
                return self._put(operation.request_put)
            case "request_range":
                return self._get(operation.request_range)
            case "request_delete_range":
                request = operation.request_delete_range
                return f"del {self.key(request.key, request.range_end)}" + " prev" * request.prev_kv
            case "request_txn":
                return f"({self.txn(operation.request_txn)})"
        return "nothing"

    def key(self, key: bytes, range_end: bytes = b"") -> str:
        """The name of a key or of a range."""
        own_shadows = ROOT + b"held/" + self.instance + b"/"
        if range_end:
            whole = {own_shadows: "S*", ROOT + b"rollout-holds/": "H"}.get(key)
            if whole and range_end == key[:-1] + b"0":
                return whole
            return f"[{self.key(key)}, {self.key(range_end)})"
        if key.startswith(own_shadows):
            return f"S({self.key(key.removeprefix(own_shadows))})"
        if key.startswith(ROOT + b"rollout-holds/"):
            return "H/" + key.removeprefix(ROOT + b"rollout-holds/").decode()
        fixed = {ROOT + b"instances/" + self.instance: "R", ROOT + b"budget": "B"}
        return fixed.get(key) or self.names.get(key) or repr(key)

    def _put(self, put: rpc_pb2.PutRequest) -> str:
        words = ["put", self.key(put.key)]
        words += ["lease" if put.lease == self.lease else f"lease={put.lease:x}"] if put.lease else []
        words += ["keep"] if put.ignore_lease else []
        words += ["same"] if put.ignore_value else []
        words += ["prev"] if put.prev_kv else []
        return " ".join(words)

    def _get(self, read: rpc_pb2.RangeRequest) -> str:
        said = {option: getattr(read, option) for option in READ_OPTIONS if getattr(read, option)}
        options = (name.removesuffix("_only") if value is True else f"{name}={value}" for name, value in said.items())
        return " ".join(("get", self.key(read.key, read.range_end), *options))


def record_text(record: Record, names: Mapping[bytes, str]) -> str:
    """A record in one line: state, hold, generation, cards in order, gates with their attempts."""
    cards = " ".join(names.get(key, repr(key)) for key in record.keys)
    gates = " ".join(f"{name}:{gate.state}#{gate.attempt}" for name, gate in record.gates.items())
    return f"{record.state} {record.hold} g{record.generation} [{cards}] {gates}"

"""The unary calls that are measured, as discovery makes them.

The rule: no call asks or writes what another did, so that nobody's cache can answer; and each message is one that the
proxies have to look at, but for the last one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Final

from greenroom.pb.etcd import kv_pb2, rpc_pb2
from tests.bench.templates import Template, template_of
from tests.support.client import get, prefix_end, put, version_is

KEYS: Final = 10_000
PREFIX: Final = b"v1/event_channels/namespace/dynamo/component/backend/endpoint/generate/topic/kv/"
"""Keys that Dynamo writes and nobody gates, and that Greenroom itself does not follow, as it does instance records."""
NEW_KEYS: Final = PREFIX.replace(b"/kv/", b"/new/")
SMALL_BYTES, LARGE_BYTES = 256, 6 * 1024
NUMBER_BYTES = 12

Build = Callable[[int, int], bytes]


@dataclass(frozen=True)
class Workload:
    """One method with one kind of message. `keys`: so many in turn; 0: each call has a new one."""

    name: str
    path: str
    build: Build
    keys: int = KEYS
    writes: bool = False
    """Each call is one revision of etcd's."""

    @cached_property
    def template(self) -> Template:
        return template_of(self.build)


def value(number: int, size_bytes: int) -> bytes:
    """Printable, and different from number to number."""
    return b"%012d" % number + _filler(size_bytes - NUMBER_BYTES)


def _filler(size_bytes: int) -> bytes:
    return bytes(Random(size_bytes).choices(range(32, 127), k=size_bytes))


def _key(prefix: bytes, number: int) -> bytes:
    return prefix + b"%012d" % number


def _range(key: int, _: int) -> bytes:
    return rpc_pb2.RangeRequest(key=_key(PREFIX, key)).SerializeToString()


def _put(size_bytes: int) -> Build:
    def build(key: int, call: int) -> bytes:
        return rpc_pb2.PutRequest(key=_key(PREFIX, key), value=value(call, size_bytes)).SerializeToString()

    return build


def _create(key: int, call: int) -> bytes:
    """Dynamo's way to register: put where absent, else read."""
    name = _key(NEW_KEYS, key)
    compare, success = version_is(name, 0), put(name, value(call, SMALL_BYTES))
    return rpc_pb2.TxnRequest(compare=[compare], success=[success], failure=[get(name)]).SerializeToString()


def _status(_: int, __: int) -> bytes:
    return rpc_pb2.StatusRequest().SerializeToString()


WORKLOADS: Final[Mapping[str, Workload]] = {
    workload.name: workload
    for workload in (
        Workload("range", "/etcdserverpb.KV/Range", _range),
        Workload("put256", "/etcdserverpb.KV/Put", _put(SMALL_BYTES), writes=True),
        Workload("put6k", "/etcdserverpb.KV/Put", _put(LARGE_BYTES), writes=True),
        Workload("txn", "/etcdserverpb.KV/Txn", _create, keys=0, writes=True),
        # Not looked into, answered from memory, and nothing is left of it; its request says nothing that could vary.
        Workload("status", "/etcdserverpb.Maintenance/Status", _status),
    )
}
FILL: Final = WORKLOADS["put256"]
"""What gives each of the KEYS a value before they are read."""


def new_keys() -> tuple[bytes, bytes]:
    """The range of the keys that creating leaves behind."""
    return NEW_KEYS, prefix_end(NEW_KEYS)


def check_answer(workload: Workload, answer: bytes) -> None:
    """AssertionError where a call was answered without having done what it was for."""
    if workload.name == "range":
        found = rpc_pb2.RangeResponse.FromString(answer).kvs
        assert len(found) == 1, f"{len(found)} keys found"
        assert _is_small(found[0]), f"a value of {len(found[0].value)} bytes"
    elif workload.name == "txn":
        assert rpc_pb2.TxnResponse.FromString(answer).succeeded, "the key was there already"
    elif workload.name == "status":
        assert rpc_pb2.StatusResponse.FromString(answer).version, "no version"
    else:
        assert rpc_pb2.PutResponse.FromString(answer).header.revision, "no revision"


def _is_small(entry: kv_pb2.KeyValue) -> bool:
    return len(entry.value) == SMALL_BYTES

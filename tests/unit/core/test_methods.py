"""The table of methods against the protos: nothing forgotten, nothing made up, no stream taken for a message."""

import pytest
from google.protobuf.descriptor import MethodDescriptor
from grpc_health.v1 import health_pb2

from greenroom.core.methods import METHODS, Handling
from greenroom.pb.etcd import election_pb2, lock_pb2, rpc_pb2

FILES = (rpc_pb2.DESCRIPTOR, lock_pb2.DESCRIPTOR, election_pb2.DESCRIPTOR, health_pb2.DESCRIPTOR)

# In the protos, but not in etcd 3.5 or before: answered UNIMPLEMENTED here as there.
REFUSED = {"/grpc.health.v1.Health/List"}


def described() -> dict[str, MethodDescriptor]:
    return {
        f"/{service.full_name}/{method.name}": method
        for file in FILES
        for service in file.services_by_name.values()
        for method in service.methods
    }


def test_every_method_of_the_protos_is_decided_about() -> None:
    assert {path.decode() for path in METHODS} == set(described()) - REFUSED


def test_messages_are_looked_into_one_by_one_only_where_the_client_streams() -> None:
    """The first message alone decides about an inspected call, so a stream of requests must not be among them."""
    for path, handling in METHODS.items():
        if handling is not Handling.FORWARD:
            assert described()[path.decode()].client_streaming is (handling is Handling.WATCH), path


def test_whatever_names_keys_is_looked_into() -> None:
    """A request with a field of bytes can name a key; passwords, names of roles and the like are text."""
    names_keys = {
        path
        for path, method in described().items()
        if any(field.type == field.TYPE_BYTES for field in _fields(method.input_type, set()))
    }
    # A role's permission is over a range, and gives nothing that inspection would not take away again.
    forwarded = {path.decode() for path, handling in METHODS.items() if handling is Handling.FORWARD}
    assert names_keys & forwarded == {
        "/etcdserverpb.Auth/RoleGrantPermission",
        "/etcdserverpb.Auth/RoleRevokePermission",
    }


def _fields(message, seen):  # type: ignore[no-untyped-def]
    for field in message.fields:
        yield field
        if field.message_type is not None and field.message_type.full_name not in seen:
            seen.add(field.message_type.full_name)
            yield from _fields(field.message_type, seen)


@pytest.mark.parametrize(
    "path",
    [
        b"etcdserverpb.KV/Range",
        b"//etcdserverpb.KV/Range",
        b"/etcdserverpb.KV/Range?x",
        b"/etcdserverpb.KV/range",
        b"/etcdserverpb.KV%2fRange",
        b"/etcdserverpb.KV/RangeStream",
        b"/etcdserverpb.KV/",
        b"/",
        b"",
    ],
)
def test_similar_paths_are_not_in_the_table(path: bytes) -> None:
    assert path not in METHODS


def test_every_answer_with_the_members_addresses_is_given_by_the_proxy() -> None:
    """A client that followed etcd's own would go round it."""
    answers = {
        path
        for path, method in described().items()
        if any(inner.name == "clientURLs" for inner in _fields(method.output_type, set()))
    }
    assert answers == {path.decode() for path, handling in METHODS.items() if handling is Handling.HAND_OVER}

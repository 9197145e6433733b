"""The registering Txn, and what is made of what other proxies say."""

from greenroom.core.keyspace import TEMPLATES_DIGEST
from greenroom.pb.etcd import rpc_pb2
from greenroom.store.presence import PROXIES, Presence, _others
from tests.support.control_side import EventLog
from tests.support.mirroring import kv_of, unconnected


async def presence(name: str | None = "one") -> Presence:
    return Presence(
        unconnected(),
        policy_digest="p",
        templates_digest="t",
        address="a:1",
        version="1",
        log=EventLog(),
        proxy_id=name,
    )


async def test_other_templates_are_set_only_where_no_proxy_is_registered() -> None:
    txn = (await presence())._registration()
    [same] = txn.compare
    assert (same.key, same.target, same.value) == (TEMPLATES_DIGEST, rpc_pb2.Compare.VALUE, b"t")
    alone = txn.failure[0].request_txn
    [nobody] = alone.compare
    assert (nobody.key, nobody.range_end) == (PROXIES, b"\x01greenroom/proxies0")
    assert (nobody.target, nobody.result, nobody.version) == (rpc_pb2.Compare.VERSION, rpc_pb2.Compare.EQUAL, 0)
    written = [operation.request_put.key for operation in alone.success]
    assert written == [TEMPLATES_DIGEST, PROXIES + b"one"]


async def test_where_templates_agree_only_the_registration_is_written() -> None:
    txn = (await presence())._registration()
    written = [operation.request_put.key for operation in txn.success if operation.HasField("request_put")]
    assert written == [PROXIES + b"one"]


async def test_two_proxies_choose_different_names() -> None:
    assert (await presence(None)).key != (await presence(None)).key


def test_what_others_say_is_read_with_care() -> None:
    kvs = [
        kv_of(PROXIES + b"one", b'{"address": "a:1"}'),
        kv_of(PROXIES + b"two", b'{"address": "b:1"}'),
        kv_of(PROXIES + b"odd", b"[]"),
        kv_of(PROXIES + b"\xff", b"\xff"),
    ]
    assert _others(kvs, PROXIES + b"one") == {"two": {"address": "b:1"}, "odd": {}, "\ufffd": {}}


async def test_closing_before_registering_does_nothing() -> None:
    await (await presence()).close()

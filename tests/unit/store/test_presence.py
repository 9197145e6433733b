"""The registering Txn, and what is made of what other proxies say."""

import pytest

from greenroom.core.keyspace import TEMPLATES_DIGEST
from greenroom.pb.etcd import rpc_pb2
from greenroom.store.presence import (
    BEAT_SECONDS,
    PROXIES,
    TRY_SECONDS,
    TTL_SECONDS,
    Presence,
    _others,
    _place,
    _said,
    _time,
    refuse_small_role,
)
from tests.support.control_side import EventLog
from tests.support.mirroring import kv_of, unconnected


async def presence(name: str | None = "one", log: EventLog | None = None) -> Presence:
    return Presence(
        unconnected(),
        policy_digest="p",
        templates_digest="t",
        address="a:1",
        host="node1",
        version="1",
        log=log or EventLog(),
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


async def test_an_outage_is_told_when_it_begins_and_when_it_ends() -> None:
    log = EventLog()
    proxy = await presence(log=log)
    proxy._came_back()
    for _ in range(3):
        proxy._went_away(TimeoutError())
    proxy._came_back()
    proxy._came_back()
    assert [(event["event"], event["level"]) for event in log.events] == [
        ("presence.away", "warning"),
        ("presence.back", "info"),
    ]
    assert log.events[0]["reason"] == "no answer within 3 s"


async def test_it_says_why_it_is_not_registered() -> None:
    proxy = await presence()
    assert proxy.why_not_ready == "this proxy is not registered in etcd: it did not register yet"
    proxy._alive_until = _time() + 5
    proxy._went_away(TimeoutError())
    assert proxy.why_not_ready is None
    proxy._alive_until = _time()
    assert proxy.why_not_ready == "this proxy is not registered in etcd: no answer within 3 s"


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ({"address": "127.0.0.1:2390", "host": "node1"}, "127.0.0.1:2390 on node1"),
        ({"address": "127.0.0.1:2390"}, "127.0.0.1:2390 on an unknown host"),
        ({}, "an unknown address on an unknown host"),
    ],
)
def test_where_another_proxy_runs_is_told_with_its_machine(said: dict[str, str], place: str) -> None:
    assert _place(said) == place


def test_a_beat_that_is_missed_leaves_time_for_two_more_before_the_lease_ends() -> None:
    assert BEAT_SECONDS + 3 * TRY_SECONDS < TTL_SECONDS


async def test_without_a_user_nothing_is_asked_about_its_role() -> None:
    """Nobody answers there, so a question would be an error."""
    await refuse_small_role(unconnected(), [b"v1/mdc/"])


async def test_a_new_policy_is_in_what_it_says_of_itself() -> None:
    proxy = await presence()
    before = proxy._value
    proxy.policy_changed("q")
    assert (_said(before)["policy"], _said(proxy._value)["policy"]) == ("p", "q")
    assert _said(before) | {"policy": "q"} == _said(proxy._value)

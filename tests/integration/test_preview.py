"""Previews on a running proxy and a real etcd: what a frontend's etcd client sees there, and what ends it.

The rule: the client knows nothing of Greenroom. It ranges and watches as Dynamo's does.
"""

import os
import queue
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from greenroom.pb.control.v1 import control_pb2 as pb
from greenroom.pb.etcd import kv_pb2, rpc_pb2
from greenroom.processes import can_bind
from tests.support.callers import TOKENS
from tests.support.client import EtcdClient, get, put, version_is
from tests.support.control import error_reason
from tests.support.endpoints import Proxy
from tests.support.etcd import Etcd
from tests.support.greenroom import GATE_ARGUMENTS
from tests.support.http import ask
from tests.support.ports import free_port
from tests.support.waiting import wait_for
from tests.support.watching import WatchLog
from tests.support.workers import CARDS, INSTANCES, Worker

CARDS_END, INSTANCES_END = CARDS[:-1] + b"0", INSTANCES[:-1] + b"0"
PUT, DELETE = "PUT", "DELETE"


@contextmanager
def preview(proxy: Proxy, worker: Worker | None = None, **fields: Any) -> Iterator[EtcdClient]:
    """A client of a new preview, which is closed at the end unless something else has closed it."""
    opened = proxy.control.open_preview(worker.instance if worker else "", **fields)
    try:
        with EtcdClient(opened.address) as client:
            yield client
    finally:
        if opened.name in {one.name for one in proxy.control.previews()}:
            proxy.control.close_preview(opened.name)


def watch_cards(client: EtcdClient, **options: Any) -> WatchLog:
    """From after a Range, as Dynamo does it."""
    revision = client.range(CARDS, CARDS_END).header.revision
    return client.watch(CARDS, CARDS_END, start_revision=revision + 1, prev_kv=True, **options)


def keys(client: EtcdClient) -> list[bytes]:
    return [kv.key for kv in client.everything().kvs]


def code_of(call: Callable[[], object]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as raised:
        call()
    assert isinstance(raised.value, grpc.Call)
    return raised.value.code(), raised.value.details() or ""


def test_a_held_card_is_seen_and_its_release_is_one_put_and_the_end(proxy: Proxy) -> None:
    """A frontend for one worker's checks finds the card, follows an edit and the release, and is told of the end."""
    worker = proxy.held_worker()
    worker.register_lora()
    with preview(proxy, worker, only=True) as client:
        found = client.range(CARDS, CARDS_END)
        assert [(kv.key, kv.lease, kv.version) for kv in found.kvs] == [
            (worker.card_key, worker.lease, 1),
            (worker.lora_key(), worker.lease, 1),
        ]
        assert (found.count, found.more) == (2, False)
        assert proxy.public.get(worker.card_key) is None
        with watch_cards(client) as log:
            worker.swap(worker.card(taints=["new"]), worker.read().mod_revision)
            log.wait_events(1)
            assert proxy.control.pass_gates(worker.instance) == "RELEASED"
            events = log.wait_events(3)
            assert log.changes == [(PUT, worker.card_key), (PUT, worker.card_key), (PUT, worker.lora_key())]
            assert [event.prev_kv.key for event in events] == [worker.card_key, worker.card_key, worker.lora_key()]
            assert events[1].kv == proxy.public.get(worker.card_key), "the public key itself, with its revisions"
            error = log.wait_end()
        assert isinstance(error, grpc.Call)
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert "is closed: its instance is released" in (error.details() or "")
        assert len(log.events) == 3


def test_each_view_shows_what_it_should_and_no_reserved_key(proxy: Proxy) -> None:
    one, other = proxy.held_worker(), proxy.held_worker(component="other", model="large")
    public = proxy.released_worker()
    for worker in (one, other, public):
        worker.register_instance()
    everywhere = sorted([one.instance_key, other.instance_key, public.instance_key, public.card_key])
    shown = {
        "one": ((one,), {}, sorted([*everywhere, one.card_key])),
        "one alone": ((one,), {"only": True}, sorted([one.instance_key, one.card_key])),
        "a model": ((), {"selector": pb.Selector(model="large")}, sorted([*everywhere, other.card_key])),
        "all": ((), {}, sorted([*everywhere, one.card_key, other.card_key])),
    }
    for name, (workers, fields, expected) in shown.items():
        with preview(proxy, *workers, **fields) as client:
            assert keys(client) == expected, name
            assert client.everything(count_only=True).count == len(expected)
            some = client.everything(limit=2, keys_only=True)
            assert ([kv.key for kv in some.kvs], some.more, some.count) == (
                expected[:2],
                len(expected) > 2,
                len(expected),
            )
            assert (client.get(one.card_key) is not None) == (one.card_key in expected)
    assert proxy.control.previews() == []


def test_a_withdrawal_and_a_drop_and_a_deletion_are_seen_as_what_they_would_be(proxy: Proxy) -> None:
    """And whoever comes back at any revision sees the rest of it, no less."""
    worker = proxy.released_worker()
    with preview(proxy) as client, watch_cards(client) as log:
        start = client.range(CARDS, CARDS_END).header.revision
        proxy.control.decide("WithdrawInstance", worker.instance)
        log.wait_events(1)
        worker.register_lora()
        log.wait_events(2)
        assert worker.client.delete(worker.lora_key()).deleted == 1
        log.wait_events(3)
        proxy.control.decide("DropCards", worker.instance)
        log.wait_events(4)
        assert log.changes == [
            (PUT, worker.card_key),
            (PUT, worker.lora_key()),
            (DELETE, worker.lora_key()),
            (DELETE, worker.card_key),
        ]
        assert all(event.prev_kv.key == event.kv.key for event in log.events if event.type == kv_pb2.Event.DELETE)
        revisions = [event.kv.mod_revision for event in log.events]
        for seen, revision in enumerate([start, *revisions[:-1]]):
            with client.watch(CARDS, CARDS_END, start_revision=revision + 1) as again:
                again.wait_events(4 - seen)
                assert again.changes == log.changes[seen:]


def test_the_end_of_its_lease_takes_the_keys_and_closes_the_preview(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    with preview(proxy, worker, only=True) as client, watch_cards(client) as log:
        worker.client.revoke(worker.lease)
        log.wait_events(1)
        assert log.changes == [(DELETE, worker.card_key)]
        error = log.wait_end()
        assert isinstance(error, grpc.Call)
        assert "its instance's lease has ended" in (error.details() or "")
    assert proxy.control.previews() == []


def test_a_selector_follows_what_instances_become(proxy: Proxy) -> None:
    """An adapter makes a worker match, and all that is held of it appears; dropped, it is gone; a new one is shown."""
    worker = proxy.held_worker()
    with preview(proxy, selector=pb.Selector(model="polite")) as client, watch_cards(client) as log:
        assert client.range(CARDS, CARDS_END).kvs == []
        worker.register_lora()
        log.wait_events(2)
        assert sorted(log.changes) == [(PUT, worker.card_key), (PUT, worker.lora_key())]
        assert [kv.key for kv in client.range(CARDS, CARDS_END).kvs] == [worker.card_key, worker.lora_key()]
        proxy.control.decide("DropCards", worker.instance)
        log.wait_events(4)
        assert sorted(log.changes[2:]) == [(DELETE, worker.card_key), (DELETE, worker.lora_key())]
        other = proxy.held_worker(model="polite")
        log.wait_events(5)
        assert log.changes[4:] == [(PUT, other.card_key)]
        assert client.get(other.card_key) is not None


def test_it_closes_with_its_time_and_its_port_is_free_again(proxy: Proxy) -> None:
    asked = pb.Preview(actor="tests")
    asked.ttl.FromSeconds(1)
    opened = proxy.control.stub.OpenPreview(pb.OpenPreviewRequest(preview=asked), timeout=20)
    with EtcdClient(opened.address) as client, watch_cards(client) as log:
        error = log.wait_end()
    assert isinstance(error, grpc.Call)
    assert "its time is up" in (error.details() or "")
    wait_for(lambda: _is_free(opened.address), describe="the port is free")
    with pytest.raises(grpc.RpcError) as gone:
        proxy.control.close_preview(opened.name)
    assert error_reason(gone.value) == "UNKNOWN_PREVIEW"
    assert "preview.closed" in proxy.greenroom.log()


def test_a_client_writes_what_is_its_own_and_nothing_that_is_gated(proxy: Proxy) -> None:
    """A frontend with --router-replica-sync puts an event channel on a lease of its own."""
    worker, public = proxy.held_worker(), proxy.released_worker()
    channel = b"v1/event_channels/namespace/dynamo/topic/active_sequences_events/1"
    with preview(proxy, worker, only=True) as client:
        lease = client.grant(60)
        assert client.create(channel, b"zmq", lease).succeeded
        assert client.create(channel, b"zmq", lease).responses[0].response_range.kvs[0].value == b"zmq"
        assert client.keep_alive_once(lease).TTL == 60
        assert client.time_to_live(lease, keys=False).TTL > 0
        other = proxy.public.grant(60)
        proxy.public.put(channel[:-1] + b"2", b"another frontend's", other)
        proxy.public.put(b"v1/config", b"nobody's")
        assert keys(client) == [b"v1/config", channel, worker.card_key]
        [read] = client.txn([], [get(channel[:-1] + b"2")]).responses
        assert read.response_range.kvs == [], "no more than a Range shows"
        client.delete(channel)
        client.revoke(lease)
        denied, invalid, unknown = (
            grpc.StatusCode.PERMISSION_DENIED,
            grpc.StatusCode.INVALID_ARGUMENT,
            grpc.StatusCode.UNIMPLEMENTED,
        )
        for call, code in (
            (lambda: client.put(worker.card_key, b"mine"), denied),
            (lambda: client.delete(b"v1/", b"v2"), denied),
            (lambda: client.create(CARDS + b"x", b"mine"), denied),
            (lambda: client.revoke(worker.lease), denied),
            (lambda: client.revoke(public.lease), denied),
            (lambda: client.revoke(12345), grpc.StatusCode.NOT_FOUND),
            (lambda: client.put(b"\x01greenroom/budget", b"mine"), invalid),
            (lambda: client.txn([version_is(worker.card_key, 0)], [put(b"v1/mine", b"")]), unknown),
            (lambda: client.txn([], [get(b"v1/a", b"v1/z")]), unknown),
            (lambda: client.everything(sort_order=rpc_pb2.RangeRequest.DESCEND), unknown),
            (lambda: client.compact(1), unknown),
            (client.leases, unknown),
            (lambda: client.time_to_live(worker.lease), unknown),
        ):
            assert code_of(call)[0] is code
        assert "it has Range, Put, DeleteRange" in code_of(client.leases)[1]
    assert proxy.held(worker) == [worker.card_key]
    assert proxy.public.get(public.card_key) is not None


def test_watches_of_one_stream_and_options_are_as_etcds(proxy: Proxy) -> None:
    """Ids, filters, progress and cancellation, with two watches on one stream."""
    worker = proxy.held_worker()
    with preview(proxy) as client:
        filtered = [rpc_pb2.WatchCreateRequest.NOPUT]
        with client.watch(CARDS, CARDS_END, watch_id=7, filters=filtered, fragment=True) as log:
            create = rpc_pb2.WatchCreateRequest(key=INSTANCES, range_end=INSTANCES_END, watch_id=8)
            log.send(rpc_pb2.WatchRequest(create_request=create))
            worker.register_lora()
            worker.register_instance()
            worker.client.delete(worker.lora_key())
            log.wait_events(2)
            by_id = {(response.watch_id, event.kv.key) for response in log.responses for event in response.events}
            assert by_id == {(7, worker.lora_key()), (8, worker.instance_key)}
            assert {event.type for event in log.events if event.kv.key == worker.lora_key()} == {kv_pb2.Event.DELETE}
            assert not any(event.HasField("prev_kv") for event in log.events)
            log.request_progress()
            log.wait_revision(client.revision())
            cancel = rpc_pb2.WatchCancelRequest(watch_id=7)
            log.send(rpc_pb2.WatchRequest(cancel_request=cancel))
            assert log.wait_canceled().watch_id == 7


def test_readers_that_do_not_read_cost_the_proxy_little(proxy: Proxy) -> None:
    """etcd keeps what they have not read: the proxy held megabytes for each, and did not give them back."""
    value, readers = b"x" * 65536, 20
    with preview(proxy) as client, ExitStack() as stack:
        for _ in range(readers):
            requests: queue.SimpleQueue[rpc_pb2.WatchRequest | None] = queue.SimpleQueue()
            create = rpc_pb2.WatchCreateRequest(key=b"v1/", range_end=b"v2")
            requests.put(rpc_pb2.WatchRequest(create_request=create))
            watch = client.watcher.Watch(iter(requests.get, None))
            stack.callback(requests.put, None)
            stack.callback(watch.cancel)
            assert next(watch).created
        before = resident_bytes(proxy.greenroom.pid)
        for _ in range(500):
            proxy.public.put(b"v1/config", value)
        with client.watch(b"v1/", b"v2", start_revision=client.revision()) as log:
            log.wait_events(1)  # One that reads is told as ever.
        grown = resident_bytes(proxy.greenroom.pid) - before
    assert grown < 2 * readers << 20, f"{grown >> 20} MiB"


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_over_http_and_by_the_command_line(proxy: Proxy, tmp_path: Path) -> None:
    worker = proxy.held_worker()
    wait_for(lambda: [one.id for one in proxy.control.instances()] == [worker.instance], describe="it is listed")
    token = tmp_path / "token"
    token.write_text(TOKENS["ann"])  # Of which this proxy takes no notice: it has no access file.
    arguments = ("--only", "--for", "10m", "--token-file", str(token))
    done = proxy.greenroom.cli("preview", "open", worker.instance, *arguments)
    assert done.returncode == 0, done.stderr
    address = done.stdout.strip()
    with EtcdClient(address) as client:
        assert keys(client) == [worker.card_key]
    [opened] = ask(f"{proxy.greenroom.http_url}/v1/previews").json["previews"]
    assert (opened["instance"], opened["only"], opened["ttl"]) == (f"instances/{worker.instance}", True, "600s")
    assert f"{worker.instance} alone" in proxy.greenroom.must("preview", "list")
    assert address in proxy.greenroom.must("preview", "close", opened["name"].removeprefix("previews/")[:5])
    assert "no previews are open" in proxy.greenroom.must("preview", "list")
    url = f"{proxy.greenroom.http_url}/v1/previews"
    posted = ask(url, {"selector": {"model": "tiny"}, "actor": "curl"}).json
    assert ask(f"{proxy.greenroom.http_url}/v1/{posted['name']}").json["address"] == posted["address"]
    assert ask(f"{proxy.greenroom.http_url}/v1/{posted['name']}:close", {}).status == 200
    assert b"greenroom_previews_open 0.0" in ask(f"{proxy.greenroom.http_url}/metrics").body


def test_what_cannot_be_opened_is_said(proxy: Proxy) -> None:
    released = proxy.released_worker()
    for instance, fields, reason in (
        ("abc", {}, "UNKNOWN_INSTANCE"),
        (released.instance, {}, "WRONG_STATE"),
        ("", {"only": True}, "INVALID_REQUEST"),
        (released.instance, {"selector": pb.Selector(model="x")}, "INVALID_REQUEST"),
    ):
        with pytest.raises(grpc.RpcError) as raised:
            proxy.control.open_preview(instance, **fields)
        assert error_reason(raised.value) == reason


def test_a_standing_preview_and_places_as_the_proxy_was_told(
    own_etcd: Etcd, launch_proxy: Callable[..., Proxy]
) -> None:
    """And etcd's answer to a compacted revision reaches whoever comes back there, by selector too."""
    standing, port = free_port(), free_port()
    arguments = ("--preview-listen", f"127.0.0.1:{standing}", "--preview-selector", "model=tiny")
    places = ("--preview-ports", f"{port}-{port}", "--preview-advertise", "localhost")
    proxy = launch_proxy(own_etcd, arguments=(*GATE_ARGUMENTS, *arguments, *places))
    worker, _ = proxy.held_worker(), proxy.held_worker(model="large")
    with EtcdClient(f"127.0.0.1:{standing}") as client, watch_cards(client) as log:
        assert [kv.key for kv in client.range(CARDS, CARDS_END).kvs] == [worker.card_key]
        [listed] = proxy.control.previews()
        assert (listed.name, listed.HasField("expire_time")) == ("previews/standing", False)
        with pytest.raises(grpc.RpcError) as refused:
            proxy.control.close_preview(listed.name)
        assert error_reason(refused.value) == "STANDING_PREVIEW"
        assert proxy.control.open_preview().address == f"localhost:{port}"
        with pytest.raises(grpc.RpcError) as none_left:
            proxy.control.open_preview()
        assert error_reason(none_left.value) == "TOO_MANY_PREVIEWS"
        proxy.public.put(b"k", b"1")
        revision = proxy.public.put(b"k", b"2").header.revision
        proxy.public.compact(revision)
        for start in (2, revision - 1):
            with client.watch(CARDS, CARDS_END, start_revision=start) as late:
                assert late.wait_canceled().compact_revision == revision
        proxy.greenroom.stop()
        error = log.wait_end()
        assert isinstance(error, grpc.Call)
        assert "the proxy stops" in (error.details() or "")


def _is_free(address: str) -> bool:
    host, _, port = address.rpartition(":")
    return can_bind(host, int(port))

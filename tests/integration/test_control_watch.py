"""WatchInstances of a real proxy: the snapshot, what changes, filters, resumption, and an etcd that is away."""

import base64
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest

from greenroom.core import record as records
from greenroom.core.keyspace import InstanceId, record_key
from greenroom.core.record import GateState
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.client import EtcdClient
from tests.support.control import error_reason
from tests.support.endpoints import RECORDS, Proxy, wipe_beside_proxies
from tests.support.etcd import Etcd
from tests.support.fleet import hold_fleet
from tests.support.http import ask
from tests.support.instance_stream import InstanceStream, kind_of, removal_of
from tests.support.registering import Held, held_record
from tests.support.waiting import wait_for
from tests.support.workers import Worker

WATCHERS = 50
GATES_SECONDS = {"smoke": 900.0, "latency": 900.0}


@pytest.fixture
def own_proxy(own_etcd: Etcd, launch_proxy: Callable[..., Proxy]) -> Proxy:
    return launch_proxy(own_etcd)


def watch(proxy: Proxy, **options: object) -> InstanceStream:
    return InstanceStream(proxy.control.stub, **options)  # type: ignore[arg-type]


def resumed(stream: InstanceStream, proxy: Proxy, **options: object) -> InstanceStream:
    """A stream that goes on where another one is."""
    return watch(proxy, resume_token=stream.token, known=dict(stream.known), **options)


def going_on(stream: InstanceStream, proxy: Proxy) -> InstanceStream:
    """As `resumed`; or from the start, where the proxy says so."""
    again = resumed(stream, proxy)
    try:
        again.take()
    except grpc.RpcError as error:
        if error_reason(error) != "HISTORY_GONE":
            raise
        return watch(proxy)
    return again


def told(stream: InstanceStream) -> list[tuple[str, str]]:
    return [(kind_of(event), event.instance.id) for event in stream.events]


def watchers(proxy: Proxy) -> int:
    page = ask(f"{proxy.greenroom.http_url}/metrics").body.decode()
    return next(int(float(line.split()[1])) for line in page.splitlines() if line.startswith("greenroom_instance_w"))


def listed(proxy: Proxy, *wanted: str) -> None:
    """Returns when the proxy's lists, which follow etcd by a watch, have come to these."""
    wait_for(lambda: {one.id for one in proxy.control.instances(page_size=1000)} == set(wanted), describe="listed")


def test_the_snapshot_comes_in_the_lists_order_and_then_synced(proxy: Proxy) -> None:
    first, second = proxy.held_worker(), proxy.held_worker()
    listed(proxy, first.instance, second.instance)
    with watch(proxy).until_synced() as stream:
        assert told(stream) == [("EXISTING", first.instance), ("EXISTING", second.instance), ("SYNCED", "")]
        assert stream.token
        assert list(stream.known.values()) == proxy.control.instances()


def test_without_any_instance_synced_comes_at_once(proxy: Proxy) -> None:
    listed(proxy)
    with watch(proxy).until_synced() as stream:
        assert told(stream) == [("SYNCED", "")]


def test_an_instances_life_is_told_from_its_hold_to_its_end(proxy: Proxy) -> None:
    """A dashboard sees a worker come, be checked, be released and go, and never asks a second time."""
    listed(proxy)
    with watch(proxy).until_synced() as stream:
        worker = proxy.held_worker()
        held = stream.until_told("ADDED", worker.instance, state=pb.INSTANCE_STATE_HELD)
        assert held.instance.record_revision == proxy.control.instance(worker.instance).record_revision
        worker.register_instance()
        stream.until(lambda: bool(stream.known[worker.instance].address), "its address")
        proxy.control.verdict(worker.instance, "smoke", "passed")
        proxy.control.verdict(worker.instance, "latency", "passed")
        released = stream.until_told("CHANGED", worker.instance, state=pb.INSTANCE_STATE_RELEASED)
        assert released.instance == proxy.control.instance(worker.instance)
        worker.client.revoke(worker.lease)
        gone = stream.until_told("REMOVED", worker.instance)
        assert (removal_of(gone), gone.instance.state) == ("EXPIRED", pb.INSTANCE_STATE_RELEASED)
        assert stream.known == {}


def test_one_that_expires_while_held_is_told_with_its_last_state(proxy: Proxy) -> None:
    """The lease takes the card before the record; what is told is not an instance that has no card any more."""
    worker = proxy.held_worker()
    listed(proxy, worker.instance)
    with watch(proxy).until_synced() as stream:
        before = stream.known[worker.instance]
        worker.client.revoke(worker.lease)
        gone = stream.until_told("REMOVED", worker.instance)
        assert (removal_of(gone), gone.instance) == ("EXPIRED", before)


def test_a_rollout_hold_shows_on_all_that_it_is_about_and_goes_with_it(proxy: Proxy) -> None:
    one, other = proxy.held_worker(model="tiny"), proxy.held_worker(model="large")
    listed(proxy, one.instance, other.instance)
    hold = pb.RolloutHold(reason="incident", actor="ann", selector=pb.Selector(model="tiny"))
    with watch(proxy).until_synced() as stream:
        request = pb.CreateRolloutHoldRequest(rollout_hold=hold, rollout_hold_id="night")
        proxy.control.stub.CreateRolloutHold(request, timeout=20)
        stopped = stream.until_told("CHANGED", one.instance).instance
        assert list(stopped.rollout_holds) == ["night"]
        assert [one.message for one in stopped.conditions if one.type == "NotOnHold"] == [
            "rollout hold night by ann: incident"
        ]
        proxy.control.lift_rollout("night")
        stream.until(lambda: not stream.known[one.instance].rollout_holds, "lifted")
        assert stream.kinds(other.instance) == ["EXISTING"]


def test_filters_make_a_stream_of_those_that_match_now(proxy: Proxy) -> None:
    """Who waits for held instances of one model is told of nothing else, and when one is no longer such."""
    first, other = proxy.held_worker(model="tiny"), proxy.held_worker(model="large")
    listed(proxy, first.instance, other.instance)
    with watch(proxy, model="tiny", state=pb.INSTANCE_STATE_HELD).until_synced() as stream:
        assert stream.ids == {first.instance}
        second = proxy.held_worker(model="tiny")
        stream.until_told("ADDED", second.instance)
        proxy.control.pass_gates(other.instance)
        proxy.control.pass_gates(first.instance)
        gone = stream.until_told("REMOVED", first.instance)
        assert (removal_of(gone), gone.instance.state) == ("NOT_MATCHING", pb.INSTANCE_STATE_RELEASED)
        # What becomes of it later is of no concern here.
        first.client.revoke(first.lease)
        second.client.revoke(second.lease)
        assert removal_of(stream.until_told("REMOVED", second.instance)) == "EXPIRED"
        assert stream.kinds(first.instance)[-1] == "REMOVED"
        assert stream.kinds(other.instance) == []


def test_one_that_comes_to_match_is_added(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    listed(proxy, worker.instance)
    with watch(proxy, state=pb.INSTANCE_STATE_RELEASED).until_synced() as stream:
        proxy.control.pass_gates(worker.instance)
        assert stream.until_told("ADDED", worker.instance).instance.state == pb.INSTANCE_STATE_RELEASED
        assert told(stream) == [("SYNCED", ""), ("ADDED", worker.instance)]


def test_a_record_that_cannot_be_read_is_told_as_that(proxy: Proxy) -> None:
    worker = proxy.held_worker()
    listed(proxy, worker.instance)
    key = RECORDS + worker.instance.encode()
    good = proxy.public.get(key)
    assert good is not None
    with watch(proxy).until_synced() as stream:
        proxy.public.put(key, b"{}", worker.lease)
        gone = stream.until_told("REMOVED", worker.instance)
        assert (removal_of(gone), gone.instance.state) == ("UNREADABLE", pb.INSTANCE_STATE_HELD)
        proxy.public.put(key, good.value, worker.lease)
        stream.until_told("ADDED", worker.instance)


@pytest.mark.parametrize(
    ("token", "says"),
    [
        ("nonsense", "no resume_token"),
        ("[" * 100_000, "no resume_token"),
        (base64.urlsafe_b64encode(json.dumps([1, "x", 1, True, 1, [1]]).encode()).decode(), "no resume_token"),
    ],
)
def test_what_is_no_token_is_refused(proxy: Proxy, token: str, says: str) -> None:
    with watch(proxy, resume_token=token) as stream:
        error = stream.error()
    assert (error.code(), error_reason(error)) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")  # type: ignore[attr-defined]
    assert says in error.details()  # type: ignore[attr-defined]


def test_a_token_is_good_for_the_same_filters_only(proxy: Proxy) -> None:
    with watch(proxy, model="tiny").until_synced() as stream:
        pass
    with watch(proxy, model="large", resume_token=stream.token) as other:
        error = other.error()
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]
    assert "other filters" in error.details()  # type: ignore[attr-defined]


def test_a_state_that_is_none_is_refused(proxy: Proxy) -> None:
    with watch(proxy, state=17) as stream:
        assert error_reason(stream.error()) == "INVALID_REQUEST"


def _while_nobody_looks(proxy: Proxy, *workers: Worker) -> tuple[Worker, list[tuple[str, str]]]:
    """One is released, one ends, one comes; the last one is left alone. What has to be told of that."""
    released, ended, left_alone = workers
    proxy.control.pass_gates(released.instance)
    proxy.public.revoke(ended.lease)
    new = proxy.held_worker()
    # What its reader is told at once is what the proxy has heard of by then; the rest follows.
    listed(proxy, released.instance, left_alone.instance, new.instance)
    news = [("ADDED", new.instance), ("CHANGED", released.instance), ("REMOVED", ended.instance)]
    return new, sorted(news)


def test_a_resumed_stream_tells_what_changed_and_nothing_else(proxy: Proxy) -> None:
    workers = [proxy.held_worker() for _ in range(3)]
    listed(proxy, *(worker.instance for worker in workers))
    with watch(proxy).until_synced() as stream:
        pass
    new, news = _while_nobody_looks(proxy, *workers)
    with resumed(stream, proxy).until_synced() as again:
        assert sorted(told(again)[:-1]) == news
        gone = next(event for event in again.events if kind_of(event) == "REMOVED")
        assert (removal_of(gone), gone.instance.state) == ("EXPIRED", pb.INSTANCE_STATE_HELD)
        assert again.ids == {workers[0].instance, workers[2].instance, new.instance}
    with resumed(again, proxy).until_synced() as third:
        assert told(third) == [("SYNCED", "")]


def test_a_stream_is_resumed_at_another_proxy_and_at_one_that_was_restarted(
    own_etcd: Etcd, own_proxy: Proxy, launch_proxy: Callable[..., Proxy]
) -> None:
    """A rolling restart: the reader goes on at the other replica, and comes back to the new process."""
    workers = [own_proxy.held_worker() for _ in range(3)]
    ids = {worker.instance for worker in workers}
    listed(own_proxy, *ids)
    with watch(own_proxy).until_synced() as stream:
        other = launch_proxy(own_etcd)
        own_proxy.greenroom.stop()
        assert error_reason(stream.error()) == "NOT_READY"
    new, news = _while_nobody_looks(other, *workers)
    with resumed(stream, other).until_synced() as at_other:
        assert sorted(told(at_other)[:-1]) == news
        assert at_other.ids == {workers[0].instance, workers[2].instance, new.instance}
    other.control.hold_rollout("night")
    other.public.revoke(new.lease)
    own_proxy.greenroom.start()
    with resumed(at_other, own_proxy).until_synced() as back:
        assert removal_of(back.until_told("REMOVED", new.instance)) == "EXPIRED"
        on_hold = {name for name, one in back.known.items() if list(one.rollout_holds) == ["night"]}
        assert on_hold == back.ids == {workers[0].instance, workers[2].instance}


def test_resumed_filters_know_who_matched_before(proxy: Proxy) -> None:
    stays, leaves, never = (proxy.held_worker() for _ in range(3))
    proxy.control.verdict(never.instance, "smoke", "failed")
    wait_for(lambda: len(proxy.control.instances(state=pb.INSTANCE_STATE_HELD)) == 2)
    with watch(proxy, state=pb.INSTANCE_STATE_HELD).until_synced() as stream:
        assert stream.ids == {stays.instance, leaves.instance}
    proxy.control.pass_gates(leaves.instance)
    new = proxy.held_worker()
    with resumed(stream, proxy, state=pb.INSTANCE_STATE_HELD).until_synced() as again:
        news = [("ADDED", new.instance), ("REMOVED", leaves.instance)]
        assert sorted(told(again)[:-1]) == sorted(news)
        assert removal_of(again.until_told("REMOVED", leaves.instance)) == "NOT_MATCHING"
        for worker in (never, new):
            proxy.public.revoke(worker.lease)
        again.until_told("REMOVED", new.instance)
        assert again.kinds(never.instance) == []


def test_an_address_that_changed_while_nobody_looked_is_told(proxy: Proxy) -> None:
    """It lies outside of the reserved area, and the record knows nothing of it."""
    moves, stays = proxy.held_worker(), proxy.held_worker()
    for worker in (moves, stays):
        worker.register_instance()
    wait_for(lambda: len([one for one in proxy.control.instances() if one.address]) == 2)
    with watch(proxy).until_synced() as stream:
        pass
    moves.client.delete(moves.instance_key)
    with resumed(stream, proxy) as again:
        again.until(lambda: not again.known[moves.instance].address, "no address")
        assert again.kinds(stays.instance) == []


def test_what_etcd_has_compacted_cannot_be_resumed(own_etcd: Etcd, own_proxy: Proxy) -> None:
    worker = own_proxy.held_worker()
    listed(own_proxy, worker.instance)
    with watch(own_proxy).until_synced() as stream:
        early = stream.token
        own_proxy.control.verdict(worker.instance, "smoke", "passed")
        stream.until_told("CHANGED", worker.instance)
    own_proxy.public.compact(stream.known[worker.instance].record_revision)
    with watch(own_proxy, resume_token=early) as gone:
        error = gone.error()
    assert (error.code(), error_reason(error)) == (grpc.StatusCode.OUT_OF_RANGE, "HISTORY_GONE")  # type: ignore[attr-defined]
    assert "without a resume token" in error.details()  # type: ignore[attr-defined]


def test_after_a_compaction_what_is_not_known_to_be_as_it_was_is_told_again(own_proxy: Proxy) -> None:
    """The newest token is good still; only up to when the workers' addresses were known has been compacted."""
    worker = own_proxy.held_worker()
    listed(own_proxy, worker.instance)
    with watch(own_proxy).until_synced() as stream:
        own_proxy.control.verdict(worker.instance, "smoke", "passed")
        stream.until_told("CHANGED", worker.instance)
    own_proxy.public.compact(stream.known[worker.instance].record_revision)
    with resumed(stream, own_proxy).until_synced() as again:
        assert told(again) == [("CHANGED", worker.instance), ("SYNCED", "")]
        assert again.known == stream.known


def test_while_etcd_is_away_there_is_no_stream_and_afterwards_nothing_was_missed(
    own_etcd: Etcd, own_proxy: Proxy
) -> None:
    worker, other = own_proxy.held_worker(), own_proxy.held_worker()
    listed(own_proxy, worker.instance, other.instance)
    with watch(own_proxy).until_synced() as stream:
        own_etcd.stop()
        ended = stream.error()
        assert (ended.code(), error_reason(ended)) == (grpc.StatusCode.UNAVAILABLE, "NOT_READY")  # type: ignore[attr-defined]
    with resumed(stream, own_proxy) as refused:
        assert error_reason(refused.error()) == "NOT_READY"
    own_etcd.start()
    wait_for(own_proxy.greenroom.is_ready, 30, "the proxy is ready")
    with own_etcd.client() as client:
        client.revoke(other.lease)
    with resumed(stream, own_proxy) as again:
        assert removal_of(again.until_told("REMOVED", other.instance)) == "EXPIRED"
        assert again.ids == {worker.instance}


def test_another_store_at_the_same_place_is_no_continuation(own_etcd: Etcd, own_proxy: Proxy) -> None:
    """etcd was replaced by an empty one: what the reader knows has nothing to do with it."""
    worker = own_proxy.held_worker()
    listed(own_proxy, worker.instance)
    with watch(own_proxy).until_synced() as stream:
        own_etcd.kill()
        shutil.rmtree(own_etcd.folder / "data")
        own_etcd.start()
        assert error_reason(stream.error()) == "NOT_READY"
    wait_for(own_proxy.greenroom.is_ready, 30, "the proxy is ready")
    with resumed(stream, own_proxy) as again:
        assert error_reason(again.error()) == "HISTORY_GONE"


def test_a_token_of_another_cluster_is_none_here(proxy: Proxy, own_proxy: Proxy) -> None:
    with watch(own_proxy).until_synced() as stream:
        pass
    with watch(proxy, resume_token=stream.token) as elsewhere:
        assert error_reason(elsewhere.error()) == "HISTORY_GONE"


@pytest.fixture
def fleet(proxy: Proxy) -> Iterator[list[Held]]:
    held = hold_fleet(proxy.public, 200, gates=tuple(GATES_SECONDS))
    listed(proxy, *(one.instance for one in held))
    yield held
    wipe_beside_proxies(proxy.etcd)


def rewrite(client: EtcdClient, held: Held, generation: int) -> None:
    """A change of the record, as an edit of the card makes one, with reasons as long as they get."""
    record = held_record(held.instance, GATES_SECONDS, model="tiny")
    said = {"state": GateState.ERROR, "reason": "x" * 2048}
    gates = {name: gate.model_copy(update=said) for name, gate in record.gates.items()}
    changed = record.model_copy(update={"generation": generation, "gates": gates})
    client.put(record_key(held.instance), records.encode(changed), held.lease)


def test_a_reader_that_does_not_read_gets_the_newest_states_in_the_end(proxy: Proxy, fleet: list[Held]) -> None:
    """Thousands of changes pass while it sleeps; it is told the last of each, and the proxy kept no more than that."""
    rounds = 15
    with watch(proxy, reads=False) as slow, watch(proxy).until_synced() as quick:
        memory = _resident_kib(proxy)
        for number in range(2, rounds + 2):
            for held in fleet:
                rewrite(proxy.public, held, number)
        last = {held.instance: rounds + 1 for held in fleet}
        quick.until(lambda: {one.id: one.generation for one in quick.known.values()} == last, "all changes")
        slow.begin_reading()
        slow.until(lambda: {one.id: one.generation for one in slow.known.values()} == last, "all changes")
        assert len(slow.events) < rounds * len(fleet) / 2
        assert _resident_kib(proxy) - memory < 30 * 1024


def _resident_kib(proxy: Proxy) -> int:
    status = Path(f"/proc/{proxy.greenroom.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def test_fifty_readers_are_told_the_same_and_leave_nothing_behind(proxy: Proxy, fleet: list[Held]) -> None:
    wait_for(lambda: watchers(proxy) == 0, describe="no stream is open")
    with ExitStack() as stack:
        streams = [stack.enter_context(watch(proxy)) for _ in range(WATCHERS)]
        for stream in streams:
            assert stream.until_synced().ids == {held.instance for held in fleet}
        assert watchers(proxy) == WATCHERS
        proxy.control.hold_rollout("night")
        for stream in streams:
            stream.until(lambda s=stream: all(one.rollout_holds for one in s.known.values()), "on hold")  # type: ignore[misc]
    wait_for(lambda: watchers(proxy) == 0, describe="no stream is open")


def test_a_reader_that_lost_its_stream_amid_a_list_of_changes_believes_in_nothing_that_is_gone(
    proxy: Proxy, fleet: list[Held]
) -> None:
    """It was told that a rollout hold stops the first fifty, and the hold was lifted before it was back.

    History has no trace of that: there was no hold at the token's place, and there is none now.
    """
    with watch(proxy).until_synced() as stream:
        proxy.control.hold_rollout("night")
        stream.take("the first part of the changes")
        assert 0 < sum(bool(one.rollout_holds) for one in stream.known.values()) < len(fleet)
    proxy.control.lift_rollout("night")
    wait_for(lambda: not any(one.rollout_holds for one in proxy.control.instances(page_size=1000)), describe="lifted")
    with going_on(stream, proxy).until_synced() as again:
        assert not any(one.rollout_holds for one in again.known.values())


def test_a_stream_ends_at_the_readers_deadline(proxy: Proxy) -> None:
    call = proxy.control.stub.WatchInstances(pb.WatchInstancesRequest(), timeout=1)
    with pytest.raises(grpc.RpcError) as ended:
        list(call)
    assert ended.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    wait_for(lambda: watchers(proxy) == 0, describe="no stream is open")
    assert "control.failed" not in proxy.greenroom.log()


def test_open_streams_do_not_hold_up_a_stop(own_proxy: Proxy) -> None:
    with watch(own_proxy).until_synced() as stream:
        begun = time.monotonic()
        assert own_proxy.greenroom.stop() == 0
        assert error_reason(stream.error()) == "NOT_READY"
        assert time.monotonic() - begun < 10


def test_changes_at_any_moment_leave_every_reader_with_what_etcd_has(proxy: Proxy, fleet: list[Held]) -> None:
    """Readers that come, go and resume at any moment end with the same map as one that asks at the end."""
    streams: dict[int, InstanceStream] = {}
    gone: set[InstanceId] = set()
    with ExitStack() as stack:
        for number, held in enumerate(fleet):
            if number % 3 == 0:
                proxy.public.revoke(held.lease)
                gone.add(held.instance)
            else:
                rewrite(proxy.public, held, number + 2)
            if number % 20 == 0:
                for before in streams.values():
                    before.until_synced()
                    before.call.cancel()
                streams = {key: stack.enter_context(going_on(before, proxy)) for key, before in streams.items()}
                streams[number] = stack.enter_context(watch(proxy))
        left = {held.instance for held in fleet} - gone
        listed(proxy, *left)
        expected = {one.id: one for one in proxy.control.instances(page_size=1000)}
        for stream in streams.values():
            stream.until(lambda s=stream, e=expected: s.known == e, "the same as the list")  # type: ignore[misc]

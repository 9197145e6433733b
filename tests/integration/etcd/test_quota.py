"""etcd has no space left: it takes no more writes, and all else goes on, with a held worker as with any other.

What would release somebody is a write too: it waits, is shown as waiting, and is done when there is space again.
etcd 3.5.0 and 3.5.1 refuse every Txn once their file has its full size, be it one of reads or deletes only; and the
proxy reads by Txns.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import grpc
import pytest

from greenroom.pb.control.v1 import control_pb2
from greenroom.pb.etcd import rpc_pb2
from tests.support.client import EtcdClient, delete, put
from tests.support.endpoints import Endpoint, Proxy, direct_endpoint
from tests.support.etcd import Etcd
from tests.support.greenroom import GATE_ARGUMENTS
from tests.support.waiting import wait_for
from tests.support.workers import Worker

QUOTA_BYTES = 4 << 20
LARGEST_BYTES = 512 << 10
SMALLEST_BYTES = 3000
"""With what etcd counts for a key on top, less than a page of its file, by which that grows."""
NO_SPACE = (grpc.StatusCode.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded")
AFTER_ONE_VERDICT = {
    "": control_pb2.INSTANCE_STATE_HELD,
    "smoke": control_pb2.GATE_STATE_PASSED,
    "latency": control_pb2.GATE_STATE_PENDING,
}
RETRY_SECONDS = 60
"""A proxy tries a release that failed again and again, after half a minute at the latest."""


@pytest.fixture
def small_etcd(launch_etcd: Callable[..., Etcd]) -> Etcd:
    return launch_etcd(arguments=(f"--quota-backend-bytes={QUOTA_BYTES}",))


@pytest.fixture(params=["direct", "proxied"])
def endpoint(
    request: pytest.FixtureRequest, small_etcd: Etcd, launch_proxy: Callable[..., Proxy]
) -> Iterator[Endpoint]:
    with ExitStack() as stack:
        if request.param == "proxied":
            yield launch_proxy(small_etcd)
        else:
            yield stack.enter_context(direct_endpoint(small_etcd))


def takes_txns(etcd: Etcd) -> bool:
    """Those without a put, where there is no space."""
    return not (3, 5) <= etcd.version < (3, 5, 2)


def refused(call: Callable[[], object]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as refusal:
        call()
    return refusal.value.code(), refusal.value.details()


def fill(client: EtcdClient) -> None:
    """Until etcd raises its alarm, to the last page of its file: too large a value is refused before that."""

    def is_full() -> bool:
        # A hash has everything written first: the file's size is what etcd judges by.
        client.maintenance.Hash(rpc_pb2.HashRequest(), timeout=20)
        room = QUOTA_BYTES - client.maintenance.Status(rpc_pb2.StatusRequest(), timeout=20).dbSize
        try:
            client.put(b"fill", b"x" * max(SMALLEST_BYTES, min(room // 2, LARGEST_BYTES)))
        except grpc.RpcError as error:
            return (error.code(), error.details()) == NO_SPACE
        return False

    wait_for(is_full, 60, "etcd is full")
    # It says so from its own count at first, and raises its alarm meanwhile.
    wait_for(lambda: client.maintenance.Alarm(rpc_pb2.AlarmRequest(), timeout=20).alarms, 60, "etcd's alarm")


def make_space(client: EtcdClient) -> None:
    """As etcd's manual has it: delete, compact, defragment, disarm."""
    client.delete(b"fill")
    compaction = rpc_pb2.CompactionRequest(revision=client.revision(), physical=True)
    client.kv.Compact(compaction, timeout=20)
    client.maintenance.Defragment(rpc_pb2.DefragmentRequest(), timeout=20)
    for alarm in client.maintenance.Alarm(rpc_pb2.AlarmRequest(), timeout=20).alarms:
        disarm = rpc_pb2.AlarmRequest.DEACTIVATE
        request = rpc_pb2.AlarmRequest(action=disarm, memberID=alarm.memberID, alarm=alarm.alarm)
        client.maintenance.Alarm(request, timeout=20)


def test_writes_are_refused_in_etcds_words_until_there_is_space(endpoint: Endpoint) -> None:
    """Of the held worker and of everybody; nothing of what was refused is there afterwards."""
    client = endpoint.client
    worker, new = Worker(client), Worker(client)
    worker.register()
    read = worker.read()
    fill(endpoint.public)
    writes: list[Callable[[], object]] = [
        lambda: client.put(b"a", b"1"),
        lambda: client.txn([], [put(b"a", b"1")]),
        lambda: client.put(worker.card_key, worker.card(taints=["gold"]), worker.lease),
        lambda: worker.swap(worker.card(taints=["gold"]), read.mod_revision),
        lambda: worker.register_lora(),
        lambda: new.register(),
        lambda: client.txn([], [put(b"a", b""), put(new.card_key, new.card(), new.lease)]),
        lambda: client.grant(),
    ]
    for write in writes:
        assert refused(write) == NO_SPACE
    make_space(endpoint.public)
    assert worker.read() == read
    assert client.get(new.card_key) is None
    assert client.get(b"a") is None
    assert worker.swap(worker.card(taints=["gold"]), read.mod_revision).succeeded
    assert new.register().succeeded
    assert worker.register_lora().succeeded


def test_reads_deletes_keepalives_and_revokes_go_on_without_space(endpoint: Endpoint) -> None:
    client = endpoint.client
    worker, leaving = Worker(client), Worker(client)
    for each in (worker, leaving):
        each.register()
        each.register_lora()
    client.put(b"a", b"1")
    fill(endpoint.public)
    assert client.get(b"a").value == b"1"
    assert client.keep_alive_once(worker.lease).TTL == 60
    assert sorted(client.time_to_live(worker.lease).keys) == [worker.card_key, worker.lora_key()]
    with client.watch(b"a") as log:
        assert client.delete(b"a").deleted == 1
        log.wait_events(1)
    if takes_txns(endpoint.etcd):
        assert worker.read().value == worker.card()
        assert client.delete(worker.lora_key()).deleted == 1
        assert client.txn([], [delete(worker.card_key)]).responses[0].response_delete_range.deleted == 1
        assert client.get(worker.card_key) is None
    else:
        assert refused(lambda: client.txn([], [delete(worker.card_key)])) == NO_SPACE
    client.revoke(leaving.lease)
    assert client.time_to_live(leaving.lease).TTL == -1
    make_space(endpoint.public)
    assert client.get(leaving.card_key) is None


def test_a_verdict_without_space_is_refused_and_can_be_given_again(
    small_etcd: Etcd, launch_proxy: Callable[..., Proxy]
) -> None:
    """The reporter is told in etcd's words; the worker stays held, its gate undecided."""
    proxy = launch_proxy(small_etcd)
    worker = proxy.held_worker()
    proxy.control.verdict(worker.instance, "smoke", "passed")
    fill(proxy.public)
    code, text = refused(lambda: proxy.control.verdict(worker.instance, "latency", "passed"))
    # The control API says whose words they are.
    assert (code, NO_SPACE[1] in text) == (NO_SPACE[0], True)
    assert proxy.shown(worker) == []
    if takes_txns(small_etcd):
        assert states(proxy, worker) == AFTER_ONE_VERDICT
    make_space(proxy.public)
    assert states(proxy, worker) == AFTER_ONE_VERDICT
    assert proxy.control.verdict(worker.instance, "latency", "passed") == "RELEASED"
    assert proxy.shown(worker) == [worker.card_key]


def states(proxy: Proxy, worker: Worker) -> dict[str, object]:
    """Of the instance, and of each gate."""
    shown = proxy.control.instance(worker.instance)
    return {"": shown.state, **{gate.gate: gate.state for gate in shown.gates}}


def test_a_release_without_space_waits_and_is_done_by_itself_when_there_is(
    small_etcd: Etcd, launch_proxy: Callable[..., Proxy]
) -> None:
    """Every gate had passed, and a rollout hold is lifted while etcd is full: queued, said so, and released later."""
    if not takes_txns(small_etcd):
        pytest.skip("this etcd lifts no rollout hold where there is no space")
    proxy = launch_proxy(small_etcd)
    worker = proxy.held_worker()
    proxy.control.hold_rollout("incident")
    assert proxy.control.pass_gates(worker.instance) == "QUEUED"
    fill(proxy.public)
    proxy.control.lift_rollout("incident")
    wait_for(lambda: "reconciler.retries" in proxy.greenroom.log(), describe="the proxy tries to release it")
    assert NO_SPACE[1] in proxy.greenroom.log()
    shown = proxy.control.instance(worker.instance)
    assert shown.state == control_pb2.INSTANCE_STATE_HELD
    assert {condition.type: condition.status for condition in shown.conditions}["GatesPassed"]
    assert proxy.shown(worker) == []
    assert proxy.held(worker) == [worker.card_key]
    make_space(proxy.public)
    wait_for(lambda: proxy.shown(worker) == [worker.card_key], RETRY_SECONDS, "it is released by itself")
    assert proxy.control.state(worker.instance) == "RELEASED"


def test_a_withdrawal_without_space_is_refused_and_a_lease_can_still_be_ended(
    small_etcd: Etcd, launch_proxy: Callable[..., Proxy]
) -> None:
    """By deletion alone the cards would be lost. Whoever cannot wait for space ends the lease, which loses no more."""
    proxy = launch_proxy(small_etcd, arguments=(*GATE_ARGUMENTS, "--allow-revoke-lease"))
    stays, goes = proxy.released_worker(), proxy.released_worker()
    wait_for(lambda: len(proxy.control.instances()) == 2, describe="the proxy knows both")
    fill(proxy.public)
    code, text = refused(lambda: proxy.control.decide("WithdrawInstance", stays.instance))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "nothing was withdrawn: make space, or revoke the instance's lease" in text
    assert NO_SPACE[1] in text
    proxy.control.decide("RevokeLease", goes.instance)
    assert proxy.client.time_to_live(goes.lease).TTL == -1
    assert "decision.not_noted" in proxy.greenroom.log()
    make_space(proxy.public)
    assert (proxy.shown(stays), proxy.shown(goes)) == ([stays.card_key], [])
    proxy.control.decide("WithdrawInstance", stays.instance)
    assert (proxy.shown(stays), proxy.held(stays)) == ([], [stays.card_key])


def test_a_proxy_that_starts_without_space_serves_what_etcd_does(
    small_etcd: Etcd, launch_proxy: Callable[..., Proxy]
) -> None:
    """It cannot make itself known to other proxies; its workers' leases and reads do not depend on that."""
    if not takes_txns(small_etcd):
        pytest.skip("this etcd lets nobody read by a Txn where there is no space")
    first = launch_proxy(small_etcd)
    worker = first.held_worker()
    fill(first.public)
    first.greenroom.stop()
    second = launch_proxy(small_etcd, arguments=("--gate", "smoke=900s", "--gate", "latency=600s"))
    worker.client = second.client
    if takes_txns(small_etcd):
        assert worker.read().value == worker.card()
    assert second.client.keep_alive_once(worker.lease).TTL == 60
    assert refused(lambda: second.client.put(worker.card_key, worker.card(taints=[]), worker.lease)) == NO_SPACE
    make_space(second.public)
    assert second.control.pass_gates(worker.instance) == "RELEASED"

"""The shared fixtures against the real thing: if these are wrong, every other ring's answer is worth nothing."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest

from greenroom.pb.etcd import rpc_pb2_grpc
from tests.support import steady
from tests.support.client import EtcdClient, delete, get, mod_revision_is, put
from tests.support.etcd import Etcd, etcd_version, find_etcd, wheel_binary
from tests.support.etcdctl import Etcdctl
from tests.support.ports import free_port
from tests.support.waiting import wait_for


def binaries() -> list[str]:
    """Each etcd of this machine whose version differs."""
    found = [binary for binary in (find_etcd(), wheel_binary("etcd")) if binary is not None]
    return list({etcd_version(binary): binary for binary in reversed(found)}.values())


@pytest.mark.parametrize("binary", binaries(), ids=lambda binary: ".".join(map(str, etcd_version(binary))))
def test_a_key_outlives_a_restart_and_a_crash(launch_etcd: Callable[..., Etcd], binary: str) -> None:
    etcd = launch_etcd(binary)
    with etcd.client() as client:
        revision = client.put(b"a", b"1").header.revision
    etcd.restart()
    with etcd.client() as client:
        assert client.get(b"a").mod_revision == revision
        client.put(b"a", b"2")
    etcd.kill()
    etcd.start()
    with etcd.client() as client:
        assert client.get(b"a").value == b"2"


def test_a_paused_etcd_answers_nothing_until_it_is_resumed(own_etcd: Etcd) -> None:
    with own_etcd.client() as client:
        client.put(b"a", b"1")
        own_etcd.pause()
        future = client.kv.Range.future(get(b"a").request_range, timeout=0.2)
        assert future.exception().code() == grpc.StatusCode.DEADLINE_EXCEEDED
        own_etcd.resume()
        assert client.get(b"a").value == b"1"


def test_closing_removes_the_folder_and_the_process() -> None:
    etcd = Etcd.launch()
    etcd.close()
    assert not etcd.running
    assert not Path(etcd.folder).exists()


def test_wiping_leaves_no_key_and_no_lease(client: EtcdClient) -> None:
    client.put(b"left", b"behind", client.grant())
    client.put(b"\x00lowest", b"")
    client.wipe()
    assert client.everything().count == 0
    assert client.leases() == []


def test_the_watch_log_keeps_answers_as_they_came(client: EtcdClient) -> None:
    with client.watch() as log:
        client.txn([], [put(b"b", b"1"), put(b"a", b"2")])
        revision = client.delete(b"a").header.revision
        log.wait_revision(revision)
        assert log.changes == [("PUT", b"b"), ("PUT", b"a"), ("DELETE", b"a")]
        assert next(log.batches()) == [b"b", b"a"]


def test_the_watch_log_tells_of_a_stream_that_breaks(own_etcd: Etcd) -> None:
    with own_etcd.client() as client, client.watch() as log:
        own_etcd.kill()
        error = log.wait_end()
        assert error is not None
        assert error.code() == grpc.StatusCode.UNAVAILABLE


def test_a_lease_of_one_second_ends_by_itself(client: EtcdClient) -> None:
    lease = client.grant(ttl_seconds=1)
    client.put(b"a", b"1", lease)
    assert client.time_to_live(lease).keys == [b"a"]
    assert client.keep_alive_once(lease).TTL == 1
    wait_for(lambda: client.get(b"a") is None, 10, "the key ends with its lease")
    assert client.keep_alive_once(lease).TTL == 0


def test_compares_and_branches(client: EtcdClient) -> None:
    assert client.create(b"a", b"1").succeeded
    second = client.create(b"a", b"2")
    assert not second.succeeded
    held = second.responses[0].response_range.kvs[0]
    answer = client.txn([mod_revision_is(b"a", held.mod_revision)], [delete(b"a"), get(b"a")])
    assert answer.succeeded
    assert answer.responses[0].response_delete_range.deleted == 1
    assert answer.responses[1].response_range.count == 0


def test_etcdctl_sees_the_same_store(client: EtcdClient, etcdctl: Etcdctl) -> None:
    client.put(b"a", b"1")
    assert etcdctl.lines("get", "a") == ["a", "1"]
    assert etcdctl.json("get", "a")["count"] == 1
    assert etcdctl.run("get", "--nonsense", check=False).returncode != 0


def test_lock_and_election_speak_as_our_protos_say(client: EtcdClient) -> None:
    """Our own protos of these two services were written from memory of the wire: etcd itself is the judge."""
    from greenroom.pb.etcd import election_pb2, election_pb2_grpc, lock_pb2, lock_pb2_grpc

    lock = lock_pb2_grpc.LockStub(client.channel)
    lease = client.grant()
    owned = lock.Lock(lock_pb2.LockRequest(name=b"l", lease=lease), timeout=5)
    assert owned.key == b"l/%x" % lease
    lock.Unlock(lock_pb2.UnlockRequest(key=owned.key), timeout=5)
    assert client.get(owned.key) is None

    election = election_pb2_grpc.ElectionStub(client.channel)
    won = election.Campaign(election_pb2.CampaignRequest(name=b"e", lease=lease, value=b"me"), timeout=5).leader
    assert (won.name, won.lease, won.rev) == (b"e", lease, client.get(won.key).create_revision)
    election.Proclaim(election_pb2.ProclaimRequest(leader=won, value=b"still me"), timeout=5)
    assert election.Leader(election_pb2.LeaderRequest(name=b"e"), timeout=5).kv.value == b"still me"
    election.Resign(election_pb2.ResignRequest(leader=won), timeout=5)
    assert client.get(won.key) is None


async def test_a_steady_client_is_told_how_a_stream_ended_between_two_of_its_requests() -> None:
    """gRPC refuses to write to it, with an error that is none of a call's; the client must begin again all the same."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{free_port()}") as channel:
        keep_alive = rpc_pb2_grpc.LeaseStub(channel).LeaseKeepAlive()
        watch = rpc_pb2_grpc.WatchStub(channel).Watch()
        assert {await keep_alive.code(), await watch.code()} == {grpc.StatusCode.UNAVAILABLE}
        over = SimpleNamespace(LeaseKeepAlive=lambda: keep_alive, Watch=lambda: watch)
        for work in (
            steady._keep_alive(over, steady.Lease(1, 0.0)),
            steady._watch(over, b"any", steady.Watched(), {}),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await work
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE

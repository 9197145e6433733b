"""etcd's own command line, straight and through the proxy: the same words, for the same commands.

Behind the proxy somebody is held all the time.
"""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.endpoints import Endpoint, Proxy
from tests.support.etcdctl import Etcdctl, find_etcdctl
from tests.support.waiting import wait_for
from tests.support.workers import Worker

CHECKSUM_BYTES = 32


@pytest.fixture
def ctl(etcd_or_proxy: Endpoint) -> Etcdctl:
    etcd_or_proxy.hold_somebody()
    return Etcdctl(etcd_or_proxy.url, find_etcdctl())


@contextmanager
def running(ctl: Etcdctl, *arguments: str, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A command that goes on until it is told to end. Not by SIGINT: what runs in the background may ignore that."""
    command = [ctl.binary, f"--endpoints={ctl.endpoint}", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ETCD")}
    with log.open("wb") as output:
        child = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env={**environment, "ETCDCTL_API": "3"}
        )
    try:
        yield child
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(20)


def same(proxy: Proxy, *arguments: str) -> tuple[Any, Any]:
    """What a command says in JSON, straight on etcd and through the proxy in front of it."""
    binary = find_etcdctl()
    return Etcdctl(proxy.etcd.endpoint, binary).json(*arguments), Etcdctl(proxy.url, binary).json(*arguments)


def test_put_get_and_del(ctl: Etcdctl) -> None:
    assert ctl.lines("put", "a", "1") == ["OK"]
    assert ctl.lines("put", "a", "2", "--prev-kv") == ["OK", "a", "1"]
    assert ctl.lines("put", "b", "3") == ["OK"]
    assert ctl.lines("get", "a") == ["a", "2"]
    assert ctl.lines("get", "a", "c", "--order=DESCEND") == ["b", "3", "a", "2"]
    assert ctl.lines("get", "a", "--print-value-only") == ["2"]
    assert ctl.lines("del", "a", "--prev-kv") == ["1", "a", "2"]
    assert ctl.lines("get", "a") == []


def test_the_whole_store_is_the_public_one(ctl: Etcdctl) -> None:
    """The three ways in which people ask for everything."""
    for key in ("a", "v1/mdd", "z"):
        ctl.run("put", key, "1")
    whole = ["a", "1", "v1/mdd", "1", "z", "1"]
    assert ctl.lines("get", "", "--prefix") == whole
    assert ctl.lines("get", "", "--from-key") == whole
    assert ctl.lines("get", "\1", "--from-key") == whole
    assert ctl.json("get", "", "--prefix", "--limit=1")["count"] == 3
    assert ctl.lines("del", "", "--from-key") == ["3"]
    assert ctl.lines("get", "", "--prefix") == []


def test_txn(ctl: Etcdctl) -> None:
    ctl.run("put", "a", "1")
    script = 'value("a") = "1"\nversion("b") = "0"\n\nput a 2\nput b 3\nget a\n\nget a\n\n'
    told = [ctl.run("txn", stdin=script).stdout.split() for _ in range(2)]
    assert told == [["SUCCESS", "OK", "OK", "a", "2"], ["FAILURE", "a", "2"]]


def test_leases(ctl: Etcdctl) -> None:
    (granted,) = ctl.lines("lease", "grant", "100")
    found = re.fullmatch(r"lease ([0-9a-f]+) granted with TTL\(100s\)", granted)
    assert found is not None
    lease = found[1]
    ctl.run("put", "a", "1", f"--lease={lease}")
    (told,) = ctl.lines("lease", "timetolive", lease, "--keys")
    assert re.fullmatch(
        rf"lease {lease} granted with TTL\(100s\), remaining\((100|9\d)s\), attached keys\(\[a\]\)", told
    )
    assert ctl.lines("lease", "keep-alive", "--once", lease) == [f"lease {lease} keepalived with TTL(100)"]
    assert lease in ctl.lines("lease", "list")
    assert ctl.lines("lease", "revoke", lease) == [f"lease {lease} revoked"]
    assert ctl.lines("get", "a") == []
    assert ctl.lines("lease", "timetolive", lease) == [f"lease {lease} already expired"]
    assert "requested lease not found" in ctl.run("lease", "revoke", lease, check=False).stderr


def test_a_worker_registers_by_hand(ctl: Etcdctl, etcd_or_proxy: Endpoint) -> None:
    """A person plays a worker: what he is told does not depend on whether the card is held."""
    worker = Worker(etcd_or_proxy.client, ttl_seconds=300)
    key, value = worker.card_key.decode(), worker.card().decode()
    assert ctl.lines("put", key, value, f"--lease={worker.instance}") == ["OK"]
    assert ctl.lines("get", key) == [key, value]
    assert f"attached keys([{key}])" in ctl.lines("lease", "timetolive", worker.instance, "--keys")[0]
    assert ctl.lines("del", key) == ["1"]


def test_watch(ctl: Etcdctl, tmp_path: Path, etcd_or_proxy: Endpoint) -> None:
    revision = ctl.json("put", "a", "1")["header"]["revision"]
    log = tmp_path / "watch.log"
    with running(ctl, "watch", "", "--prefix", f"--rev={revision}", log=log):
        ctl.run("put", "b", "2")
        etcd_or_proxy.hold_somebody()
        ctl.run("del", "a")
        wait_for(lambda: log.read_text().count("\n") >= 8, describe="three events")
    assert log.read_text().splitlines() == ["PUT", "a", "1", "PUT", "b", "2", "DELETE", "a", ""]


def test_lock(ctl: Etcdctl) -> None:
    """A command under a lock; the next one gets the lock, so the first let it go."""
    for number in ("1", "2"):
        assert ctl.lines("lock", "mutex", "echo", number) == [number]
    assert ctl.lines("get", "mutex", "--prefix") == []


def test_elect(ctl: Etcdctl, tmp_path: Path) -> None:
    campaign, observed = tmp_path / "campaign.log", tmp_path / "observed.log"
    with running(ctl, "elect", "office", "me", log=campaign):
        wait_for(lambda: "me" in campaign.read_text().splitlines(), describe="it is elected")
        with running(ctl, "elect", "--listen", "office", log=observed):
            wait_for(lambda: "me" in observed.read_text().splitlines(), describe="the leader is told")
    assert campaign.read_text().splitlines()[0].startswith("office/")
    wait_for(lambda: ctl.lines("get", "office", "--prefix") == [], describe="it resigned")


def test_locks_on_gated_keys_are_refused(proxy: Proxy) -> None:
    ctl = Etcdctl(proxy.url, find_etcdctl())
    # etcdctl makes locks of plain Txns, and elections too; what it may not write is refused by the key.
    failed = ctl.run("lock", "v1/mdc", "echo", "got it", check=False)
    assert failed.returncode != 0
    assert "got it" not in failed.stdout
    assert "v1/mdc/" in failed.stderr


def test_member_list(proxy: Proxy) -> None:
    own, shown = same(proxy, "member", "list")
    assert [member.pop("clientURLs") for member in own["members"]] == [[proxy.etcd.endpoint]]
    assert [member.pop("clientURLs") for member in shown["members"]] == [[proxy.url]]
    assert own["members"] == shown["members"]


def test_endpoint_status_and_health(proxy: Proxy) -> None:
    ((own,), (shown,)) = same(proxy, "endpoint", "status")
    assert (own.pop("Endpoint"), shown.pop("Endpoint")) == (proxy.etcd.endpoint, proxy.url)
    for status in (own["Status"], shown["Status"]):
        for changing in ("raftIndex", "raftAppliedIndex", "dbSize", "dbSizeInUse"):
            status.pop(changing)
        status["header"].pop("revision")
    assert own == shown
    ctl = Etcdctl(proxy.url, find_etcdctl())
    healthy = ctl.run("endpoint", "health")
    assert f"{proxy.url} is healthy" in healthy.stdout + healthy.stderr


def test_syncing_the_endpoints_does_not_lead_round_the_proxy(proxy: Proxy) -> None:
    """etcdctl then follows the member list: it must end at the proxy, where nothing held is shown."""
    held = proxy.hold_somebody()
    ctl = Etcdctl(proxy.url, find_etcdctl())
    statuses = ctl.json("endpoint", "status", "--cluster")
    assert [status["Endpoint"] for status in statuses] == [proxy.url]
    assert len(held) == 2
    assert ctl.lines("get", "", "--prefix", "--keys-only") == []


def test_a_snapshot_passes_whole(ctl: Etcdctl, tmp_path: Path) -> None:
    """A stream of large answers; etcdctl judges it by the checksum that etcd put at its end."""
    ctl.run("put", "a", "x" * 100_000)
    path = tmp_path / "snapshot.db"
    ctl.run("snapshot", "save", str(path))
    status = ctl.json("snapshot", "status", str(path))
    assert status["totalSize"] == path.stat().st_size - CHECKSUM_BYTES > 100_000


def test_compaction_and_alarms(own_etcd_or_proxy: Endpoint) -> None:
    own_etcd_or_proxy.hold_somebody()
    ctl = Etcdctl(own_etcd_or_proxy.url, find_etcdctl())
    ctl.run("put", "a", "1")
    revision = own_etcd_or_proxy.public.revision()
    ctl.run("put", "a", "2")
    assert ctl.lines("alarm", "list") == []
    assert ctl.lines("compaction", str(revision + 1)) == [f"compacted revision {revision + 1}"]
    failed = ctl.run("get", "a", f"--rev={revision}", check=False)
    assert "required revision has been compacted" in failed.stderr

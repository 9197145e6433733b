"""The Python client on a running proxy: what a gate's program lives through, restarts of the proxy among it.

The rule: one proxy with an access file for the whole file, which is up again at the end of each test.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from threading import Thread

import grpc
import pytest

from greenroom.client import (
    Change,
    ChangeKind,
    ControlError,
    Decision,
    GateState,
    Greenroom,
    NoSuchInstanceError,
    Outcome,
    RejectedError,
    RemovalReason,
    Selector,
    State,
    TimedOutError,
)
from greenroom.client.callers import myself
from greenroom.processes import can_bind
from tests.support.callers import TOKENS, access_text
from tests.support.client import EtcdClient
from tests.support.endpoints import Proxy, launched_proxy, wipe_beside_proxies
from tests.support.etcd import Etcd
from tests.support.greenroom import GATE_ARGUMENTS
from tests.support.waiting import wait_for
from tests.support.workers import CARDS

CLAIMS = b"\x01greenroom/claims/"
WAIT_SECONDS = 60
SHORTEST_CLAIM_SECONDS = 5
SEEN = (ChangeKind.EXISTING, ChangeKind.ADDED)
"""Which of them it is depends on whether the watch had begun."""


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("client")
    path = folder / "access.yaml"
    path.write_text(access_text())
    arguments = (*GATE_ARGUMENTS, "--access", str(path))
    with Etcd.launch() as etcd, launched_proxy(etcd, folder, arguments=arguments) as proxy:
        yield proxy


@pytest.fixture
def guarded(launched: Proxy) -> Proxy:
    wipe_beside_proxies(launched.etcd)
    return launched


@pytest.fixture
def client(guarded: Proxy) -> Iterator[Greenroom]:
    """As one who may report on every gate."""
    with Greenroom(guarded.greenroom.control, token=TOKENS["ann"]) as client:
        yield client


@pytest.fixture
def changes(client: Greenroom) -> Iterator["Queue[Change]"]:
    """Those that a watch tells."""
    told: Queue[Change] = Queue()

    def watch() -> None:
        for change in client.watch():
            told.put(change)

    thread = Thread(target=watch)
    thread.start()
    yield told
    client.close()
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive(), "a watch ends with its client"


def held(guarded: Proxy) -> str:
    """A worker that is held; its id."""
    return guarded.held_worker().instance


def reconnected(guarded: Proxy) -> None:
    """Returns when the worker's side has got over a restart, which gRPC tries in its own time."""
    grpc.channel_ready_future(guarded.client.channel).result(WAIT_SECONDS)


def release(client: Greenroom, instance: str) -> Decision:
    for gate in ("smoke", "latency"):
        decision = client.report(instance, gate, Outcome.PASSED, attempt=1).decision
    return decision


def until(changes: "Queue[Change]", instance: str, *kinds: ChangeKind) -> Change:
    """The next change of this instance that is of one of these kinds; those before it are dropped."""
    while True:
        change = changes.get(timeout=WAIT_SECONDS)
        if change.instance.id == instance and change.kind in kinds:
            return change


def test_a_gate_is_found_claimed_checked_and_reported(guarded: Proxy, client: Greenroom) -> None:
    instance = held(guarded)
    wait_for(lambda: [one.id for one in client.instances(state=State.HELD)] == [instance], describe="it is listed")
    gate = client.instance(instance).gate("smoke")
    assert gate is not None
    assert (gate.state, gate.attempt, gate.is_open) == (GateState.PENDING, 1, True)
    with client.claim(instance, "smoke", gate.attempt, runner="ann/1") as kept:
        assert (kept.claim.instance, kept.claim.gate, kept.claim.runner) == (instance, "smoke", "ann/1")
        first = client.report(instance, "smoke", Outcome.PASSED, attempt=1, reason="answers")
    assert (first.decision, first.repeated) == (Decision.RECORDED, False)
    assert client.report(instance, "smoke", Outcome.PASSED, attempt=1, reason="answers").repeated
    assert client.report(instance, "latency", Outcome.PASSED, attempt=1).decision is Decision.RELEASED
    released = client.wait(instance, timeout_seconds=WAIT_SECONDS)
    assert (released.state, released.waits_for) == (State.RELEASED, "")
    assert [(gate.name, gate.reporter) for gate in released.gates] == [("latency", "ann"), ("smoke", "ann")]


def test_a_verdict_on_what_was_changed_meanwhile_is_refused_and_says_what_to_do(
    guarded: Proxy, client: Greenroom
) -> None:
    worker = guarded.held_worker()
    worker.register_lora()
    with pytest.raises(ControlError, match="look at the instance for the attempt that is open") as stale:
        client.report(worker.instance, "smoke", Outcome.PASSED, attempt=1)
    assert stale.value.reason == "STALE_ATTEMPT"
    assert client.report(worker.instance, "smoke", Outcome.PASSED, attempt=2).decision is Decision.RECORDED


def test_a_watch_outlasts_a_restart_and_misses_nothing(
    guarded: Proxy, client: Greenroom, changes: "Queue[Change]", caplog: pytest.LogCaptureFixture
) -> None:
    """One worker ended while the proxy was away, another one came afterwards."""
    worker = guarded.held_worker()
    until(changes, worker.instance, *SEEN)
    guarded.greenroom.kill()
    guarded.public.revoke(worker.lease)
    wait_for(lambda: "asking again" in caplog.text, describe="the outage is told")
    guarded.greenroom.start()
    gone = until(changes, worker.instance, ChangeKind.REMOVED)
    assert gone.removal_reason is RemovalReason.EXPIRED
    reconnected(guarded)
    until(changes, held(guarded), ChangeKind.ADDED)
    told = [record.getMessage() for record in caplog.records if record.name == "greenroom.client"]
    assert ["no control API answers" in told[0], told[1:]] == [True, ["greenroom: it answers again"]]


def test_a_watch_begins_anew_where_the_history_is_gone(
    guarded: Proxy, client: Greenroom, changes: "Queue[Change]"
) -> None:
    """etcd was compacted while the proxy was away: what is there is told again, and who went too."""
    gone, stays = guarded.held_worker(), guarded.held_worker()
    for worker in (gone, stays):
        until(changes, worker.instance, *SEEN)
    guarded.greenroom.kill()
    guarded.public.revoke(gone.lease)
    guarded.public.compact(guarded.public.put(b"later").header.revision)
    guarded.greenroom.start()
    until(changes, stays.instance, ChangeKind.EXISTING)
    assert until(changes, gone.instance, ChangeKind.REMOVED).removal_reason is RemovalReason.UNKNOWN
    reconnected(guarded)


def test_a_wait_outlasts_a_restart(guarded: Proxy, client: Greenroom) -> None:
    instance = held(guarded)
    guarded.greenroom.kill()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.wait, instance, timeout_seconds=WAIT_SECONDS)
        guarded.greenroom.start()
        assert release(client, instance) is Decision.RELEASED
        assert waiting.result(WAIT_SECONDS).state is State.RELEASED
    reconnected(guarded)


def test_a_verdict_outlasts_a_restart(guarded: Proxy, client: Greenroom) -> None:
    instance = held(guarded)
    guarded.greenroom.kill()
    with ThreadPoolExecutor(1) as pool:
        reporting = pool.submit(client.report, instance, "smoke", Outcome.PASSED, attempt=1)
        guarded.greenroom.start()
        assert reporting.result(WAIT_SECONDS).decision is Decision.RECORDED
    reconnected(guarded)


def test_a_wait_ends_with_what_it_waited_for_or_says_why_not(guarded: Proxy, client: Greenroom) -> None:
    worker, instance = guarded.held_worker(), held(guarded)
    with pytest.raises(
        TimedOutError, match=rf"^{instance} is still held after 0\.5s; it waits for .*smoke.*latency"
    ) as late:
        client.wait(instance, timeout_seconds=0.5)
    assert late.value.reason == "TIMED_OUT"
    client.report(instance, "smoke", Outcome.FAILED, attempt=1, reason="answers nonsense")
    with pytest.raises(RejectedError, match="is rejected: smoke failed: answers nonsense"):
        client.wait(instance, timeout_seconds=WAIT_SECONDS)
    assert client.wait(instance, until=State.REJECTED, timeout_seconds=WAIT_SECONDS).id == instance
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.wait, worker.instance, timeout_seconds=WAIT_SECONDS)
        guarded.public.revoke(worker.lease)
        with pytest.raises(NoSuchInstanceError, match="its lease ended"):
            waiting.result(WAIT_SECONDS)
    with pytest.raises(NoSuchInstanceError, match=r"instances\(\) lists those that there are"):
        client.wait(worker.instance, timeout_seconds=WAIT_SECONDS)


def test_a_claim_is_renewed_is_nobody_elses_and_is_given_back(guarded: Proxy, client: Greenroom) -> None:
    instance = held(guarded)
    with client.claim(instance, "smoke", 1, runner="ann/1", ttl_seconds=SHORTEST_CLAIM_SECONDS) as kept:
        with pytest.raises(ControlError, match="is claimed by ann/1") as taken, client.claim(instance, "smoke", 1):
            pass
        assert taken.value.reason == "GATE_CLAIMED"
        lease = guarded.public.prefix(CLAIMS).kvs[0].lease

        def left_seconds() -> int:
            return guarded.public.time_to_live(lease).TTL

        wait_for(lambda: left_seconds() < SHORTEST_CLAIM_SECONDS - 1, describe="time has passed")
        wait_for(lambda: left_seconds() >= SHORTEST_CLAIM_SECONDS - 1, describe="it was renewed")
        assert not kept.lost.is_set()
    assert guarded.public.prefix(CLAIMS).count == 0
    with client.claim(instance, "smoke", 1, runner="ann/2"):
        pass


def test_whoever_lost_his_claim_is_told(guarded: Proxy, client: Greenroom) -> None:
    """etcd was away for too long, say: the lease is gone, and another runner may have the attempt."""
    instance = held(guarded)
    with client.claim(instance, "smoke", 1, ttl_seconds=SHORTEST_CLAIM_SECONDS) as kept:
        [claim] = guarded.public.prefix(CLAIMS).kvs
        guarded.public.revoke(claim.lease)
        assert kept.lost.wait(WAIT_SECONDS)
        assert "claim" in kept.why_lost
        with client.claim(instance, "smoke", 1, runner="ann/2") as other:
            assert other.claim.runner == "ann/2"


def test_a_preview_shows_what_is_held_while_its_block_runs(guarded: Proxy) -> None:
    """As a reporter, whose business these instances are; one who says nobody is nobody's."""
    worker, other = guarded.held_worker(), guarded.held_worker()
    with Greenroom(guarded.greenroom.control, token=TOKENS["tiny-ci"]) as reporter:
        with reporter.open_preview(instance=worker.instance, only=True, ttl_seconds=600) as preview:
            with EtcdClient(preview.address) as frontend:
                assert [kv.key for kv in frontend.prefix(CARDS).kvs] == [worker.card_key]
            assert preview.expire_time is not None
        host, _, port = preview.address.rpartition(":")
        assert can_bind(host, int(port))
        assert guarded.held(other) == [other.card_key]
        with pytest.raises(ControlError) as refused, reporter.open_preview(selector=Selector(model="tiny*")):
            pass
        assert refused.value.reason == "NOT_PERMITTED"


def test_whoever_a_proxy_does_not_know_opens_a_preview_as_user_at_host(proxy: Proxy) -> None:
    """With a token or without: it has no access file, and takes no notice."""
    for token in ("", TOKENS["ann"]):
        with Greenroom(proxy.greenroom.control, token=token) as client, client.open_preview():
            [opened] = proxy.control.previews()
            assert opened.actor == myself()
    assert list(proxy.control.previews()) == []


def test_a_reporter_may_do_what_its_token_says(guarded: Proxy, tmp_path: Path) -> None:
    instance = held(guarded)
    path = tmp_path / "token"
    path.write_text(f"{TOKENS['ci']}\n")
    with Greenroom(guarded.greenroom.control, token_file=str(path)) as reporter:
        answer = reporter.report(instance, "smoke", Outcome.PASSED, attempt=1)
        gate = answer.instance.gate("smoke")
        assert gate is not None
        assert gate.reporter == "ci"
        with pytest.raises(ControlError, match="whoever keeps the access file can change what you may") as refused:
            reporter.report(instance, "latency", Outcome.PASSED, attempt=1)
        assert refused.value.reason == "NOT_PERMITTED"
    with Greenroom(guarded.greenroom.control) as nobody:
        with pytest.raises(ControlError, match="token or token_file say who you are") as unknown:
            nobody.instances()
        assert unknown.value.reason == "UNAUTHENTICATED"


def test_the_environment_says_where_and_who(guarded: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GREENROOM_CONTROL", guarded.greenroom.control)
    with Greenroom.from_environment() as nobody, pytest.raises(ControlError, match="GREENROOM_TOKEN_FILE or GREENR"):
        nobody.instances()
    monkeypatch.setenv("GREENROOM_TOKEN", TOKENS["grafana"])
    with Greenroom.from_environment() as viewer:
        assert viewer.instances() == []

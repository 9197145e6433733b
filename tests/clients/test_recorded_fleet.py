"""One whole recorded life of a Dynamo fleet, played on etcd itself and through the proxy: the same bytes come back.

A frontend, two mockers and a Python worker: leases, cards, taint edits, an adapter, unregistering, a graceful stop, a
kill, reconnects. It is played four times through the proxy. With nothing gated, and with rules that hold only the
health answer, every answer and every event is that of etcd. With cards held and never released, and with instance
records held too, each worker's own calls are; who asks for a whole prefix, or watches it, gets etcd's answer without
what is held. A release in the middle has no counterpart on etcd: it would change the revisions that the recording's
own edits compare with, and the model that is registered anew after it would have to be checked first.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from greenroom.pb.etcd import rpc_pb2
from tests.support.endpoints import Proxy
from tests.support.etcd import Etcd
from tests.support.replay import LAST_REVISION, MARKS, WATCH, Played, play, recorded
from tests.support.replayed_twice import assert_byte_equal

COMPONENTS = ("backend", "pyw")
RULE = "{{selector: {{component: {component}}}, hold: {hold}, gates: {{smoke: {{timeout_seconds: 900}}}}}}"
LONG_SECONDS = 3600
Play = Callable[..., Played]


@pytest.fixture(scope="module")
def direct() -> Iterator[Played]:
    with Etcd.launch() as etcd, etcd.client() as client:
        yield play(etcd.address, client)


@pytest.fixture
def through_a_proxy(launch_etcd: Callable[..., Etcd], launch_proxy: Callable[..., Proxy], tmp_path: Path) -> Play:
    """Plays the recording behind a proxy with the given rules; where they hold cards, somebody else's is held too."""

    def played(hold: str, prefixes: tuple[bytes, ...] = ()) -> Played:
        policy = tmp_path / "policy.yaml"
        policy.write_text(f"rules: [{', '.join(RULE.format(component=name, hold=hold) for name in COMPONENTS)}]")
        proxy = launch_proxy(launch_etcd(), arguments=("--policy", str(policy)))
        if prefixes:
            proxy.held_worker(ttl_seconds=LONG_SECONDS)
        return play(proxy.address, proxy.public, lambda key: key not in prefixes)

    return played


def test_the_recording_can_be_played(direct: Played) -> None:
    """Nothing of it is refused by etcd, it sees all that was seen, and ends where it ended: what is compared below is
    what was recorded.
    """
    assert not [call for call in direct.calls.values() if isinstance(call.answer, tuple)]
    last = direct.calls[max(direct.calls)]
    assert rpc_pb2.RangeResponse.FromString(last.answer).header.revision == LAST_REVISION
    was_seen = sum(len(line["message"].get("events", ())) for line in recorded() if line["direction"] == "response")
    watches = [stream for stream in direct.streams.values() if stream.method == WATCH]
    answers = [rpc_pb2.WatchResponse.FromString(answer) for watch in watches for answer in watch.answers]
    assert sum(event.kv.key not in MARKS for answer in answers for event in answer.events) >= was_seen


def test_nothing_gated(direct: Played, launch_etcd: Callable[..., Etcd], launch_proxy: Callable[..., Proxy]) -> None:
    proxy = launch_proxy(launch_etcd(), arguments=("--allow-ungated",))
    assert_byte_equal(direct, play(proxy.address, proxy.public))


def test_hold_health(direct: Played, through_a_proxy: Play) -> None:
    """Every card has a record beside it, written by the same Txn."""
    assert_byte_equal(direct, through_a_proxy("health"))


def test_cards_held(direct: Played, through_a_proxy: Play) -> None:
    """Workers register, edit, load an adapter and leave without ever having been public."""
    hidden = held_under(b"v1/mdc/")
    assert_byte_equal(direct, through_a_proxy("card", (b"v1/mdc/",)), hidden)


def test_cards_and_instance_records_held(direct: Played, through_a_proxy: Play) -> None:
    hidden = held_under(b"v1/mdc/", b"v1/instances/")
    assert_byte_equal(direct, through_a_proxy("card+instance", (b"v1/mdc/", b"v1/instances/")), hidden)


def held_under(*prefixes: bytes) -> Callable[[bytes], bool]:
    return lambda key: key.startswith(prefixes) and key not in MARKS

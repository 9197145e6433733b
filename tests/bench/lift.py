"""Lifting a rollout hold over ready instances, against as many plain Txns that create the same cards.

The rule: in a round the two take turns. A plain Txn creates a card of the same bytes, and there are as many writers as
Greenroom has releases under way. A card that becomes public twice, or never, ends the run.
"""

import re
import time

from greenroom.pb.control.v1 import control_pb2
from greenroom.store.reconciler import MAX_CONCURRENT
from tests.bench.cards import TTL_SECONDS, card_key, registration, verdict
from tests.bench.figures import Case, Sample
from tests.bench.gated import TXN
from tests.bench.http2 import Connection
from tests.bench.loader import Job, load
from tests.bench.processor import cpu_seconds
from tests.bench.public_cards import PublicCards
from tests.bench.session import MICROSECONDS, SET_UP_SECONDS, Session
from tests.bench.visible import VERDICT
from tests.bench.ways import DIRECT, GREENROOM, Way
from tests.support.http import ask

SUBJECT = "lift"
CREATE_HOLD = "/greenroom.control.v1.Control/CreateRolloutHold"
LIFT = "/greenroom.control.v1.Control/LiftRolloutHold"
HOLD_ID = "bench"
SECONDS = "lift_seconds"


def measure(session: Session) -> None:
    """All rounds."""
    if not session.options.wants(SUBJECT):
        return
    count = session.options.lifted
    for number in session.rounds():
        session.say(f"round {number}: {SUBJECT}")
        for name in session.order(number, (DIRECT, GREENROOM)):
            figures = (_lift if name == GREENROOM else _plain)(session, session.ways[name], count)
            session.samples.append(Sample(Case(SUBJECT, count), name, number, figures))
        session.forget()


def _plain(session: Session, way: Way, count: int) -> dict[str, float]:
    """Until the loader has all answers, which come after the events."""
    first = session.leases(count, TTL_SECONDS)
    with PublicCards(session.etcd.port) as public:
        loaded = load(Job(way.port, TXN, registration(), MAX_CONCURRENT, SET_UP_SECONDS, first_key=first, limit=count))
        public.wait_for(_keys(first, count))
    session.revoke(first, count)
    return {SECONDS: loaded.seconds}


def _lift(session: Session, way: Way, count: int) -> dict[str, float]:
    assert way.pid is not None
    assert way.control_port is not None
    first = _ready_instances(session, way, way.control_port, count)
    before, used = releases(way.http_url), cpu_seconds(way.pid)
    with PublicCards(session.etcd.port) as public, Connection(way.control_port, LIFT) as operator:
        began_at = time.perf_counter()
        operator.call(control_pb2.LiftRolloutHoldRequest(name=f"rolloutHolds/{HOLD_ID}").SerializeToString())
        last = max(public.wait_for(_keys(first, count)))
    used = cpu_seconds(way.pid) - used
    session.revoke(first, count)
    counted = releases(way.http_url) - before
    assert counted == count, f"{counted} releases are counted, of {count} instances"
    return {SECONDS: last - began_at, "lift_cpu_us": used / count * MICROSECONDS}


def _ready_instances(session: Session, way: Way, control_port: int, count: int) -> int:
    """The first lease of so many whose gate has passed, and which a rollout hold keeps back."""
    first = session.leases(count, TTL_SECONDS)
    session.set_up(TXN, registration(), count, first, way.port)
    hold = control_pb2.RolloutHold(reason="bench", actor="bench")
    with Connection(control_port, CREATE_HOLD) as operator:
        request = control_pb2.CreateRolloutHoldRequest(rollout_hold=hold, rollout_hold_id=HOLD_ID)
        operator.call(request.SerializeToString())
    session.set_up(VERDICT, verdict(), count, first, control_port)
    return first


def releases(http_url: str) -> int:
    """How many releases the proxy has counted since it began."""
    found = re.search(rb"^greenroom_releases_total (\S+)$", ask(f"{http_url}/metrics").body, re.MULTILINE)
    assert found, "the metrics do not tell of releases"
    return int(float(found[1]))


def _keys(first: int, count: int) -> list[bytes]:
    return [card_key(lease) for lease in range(first, first + count)]

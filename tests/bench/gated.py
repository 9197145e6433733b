"""Writes of gated cards through Greenroom, against the same bytes straight at etcd: registering, and editing taints.

The rule: straight at etcd they belong to workers that Greenroom never hears of. A held write is several calls of
etcd's, so what is compared is the time until the worker has its answer; the processor time stands beside it.
"""

from tests.bench.cards import TTL_SECONDS, edit, registration
from tests.bench.figures import Case
from tests.bench.loader import Job, Loaded, load
from tests.bench.session import Session
from tests.bench.ways import DIRECT, GREENROOM, Way

EDIT, REGISTRATION = "held-put", "registration"
SUBJECTS = (EDIT, REGISTRATION)
WAYS = (DIRECT, GREENROOM)
CONNECTIONS = (1, 16)
PUT, TXN = "/etcdserverpb.KV/Put", "/etcdserverpb.KV/Txn"
REGISTRATIONS_PER_SECOND = 1000
"""So many leases wait for each second of a cell; registering ends early where they are used up."""


def measure(session: Session) -> None:
    """All rounds of the two kinds of write."""
    for subject, cell in ((EDIT, _edits), (REGISTRATION, _registrations)):
        if not session.options.wants(subject):
            continue
        for number in session.rounds():
            session.say(f"round {number}: {subject}")
            for connections in CONNECTIONS:
                for name in session.order(number, WAYS):
                    way = session.ways[name]
                    loaded = cell(session, way, connections)
                    session.record(Case(subject, connections), way, number, loaded)
            session.forget()


def _edits(session: Session, way: Way, connections: int) -> Loaded:
    """Each connection is one worker's, which edits its own card."""
    first = session.leases(connections, TTL_SECONDS)
    session.set_up(TXN, registration(), connections, first, way.port)
    loaded = _load(session, way, PUT, connections, first, 0)
    session.revoke(first, connections)
    return loaded


def _registrations(session: Session, way: Way, connections: int) -> Loaded:
    """Each call is a new worker's."""
    options = session.options
    count = int((options.seconds + options.warm_up_seconds) * REGISTRATIONS_PER_SECOND)
    first = session.leases(count, TTL_SECONDS)
    loaded = _load(session, way, TXN, connections, first, count)
    session.revoke(first, count)
    return loaded


def _load(session: Session, way: Way, path: str, connections: int, first: int, limit: int) -> Loaded:
    options = session.options
    job = Job(
        way.port,
        path,
        registration() if limit else edit(),
        connections,
        options.seconds,
        options.warm_up_seconds,
        first_key=first,
        keys=0 if limit else connections,
        limit=limit,
        pids=session.pids(way),
    )
    revision = session.client.revision()
    loaded = load(job)
    written = session.client.revision() - revision
    assert written == loaded.made, f"{path} through {way.name}: {loaded.made} calls made, {written} revisions of etcd's"
    return loaded

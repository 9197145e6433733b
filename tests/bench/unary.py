"""Unary calls through the four ways, in rounds, at several numbers of connections.

The rule: a cell is 2 s of one way, and the other three ways' cells of the same case come right before and after it.
Of writes, etcd's revision tells afterwards that each was made once.
"""

from tests.bench.figures import Case
from tests.bench.loader import Job, Loaded, load
from tests.bench.session import Session
from tests.bench.ways import Way
from tests.bench.workloads import FILL, KEYS, WORKLOADS, Workload, check_answer, new_keys

MOST_CALLS_PER_SECOND = 100_000
"""More than etcd answers: so many numbers are set aside for each second, that none comes twice."""


def measure(session: Session) -> None:
    """All rounds of all workloads that are wanted."""
    wanted = [workload for workload in WORKLOADS.values() if session.options.wants(workload.name)]
    if not wanted:
        return
    for number in session.rounds():
        for workload in wanted:
            session.say(f"round {number}: {workload.name}")
            if not workload.writes:
                _fill(session)
            for connections in session.options.connections:
                for name in session.order(number):
                    _cell(session, workload, session.ways[name], connections, number)
                _clear(session, workload)


def _fill(session: Session) -> None:
    """Every key has a small value, whatever was put there before: what is read is the same in each round."""
    session.set_up(FILL.path, FILL.template, KEYS, 0)


def _cell(session: Session, workload: Workload, way: Way, connections: int, round_number: int) -> None:
    options = session.options
    first = session.numbers(int((options.seconds + options.warm_up_seconds) * MOST_CALLS_PER_SECOND))
    job = Job(
        way.port,
        workload.path,
        workload.template,
        connections,
        options.seconds,
        options.warm_up_seconds,
        first_key=0 if workload.keys else first,
        keys=workload.keys,
        first_call=first,
        pids=session.pids(way),
    )
    revision = session.client.revision()
    loaded = load(job)
    _check(session, workload, loaded, revision)
    session.record(Case(workload.name, connections), way, round_number, loaded)


def _check(session: Session, workload: Workload, loaded: Loaded, revision: int) -> None:
    check_answer(workload, loaded.last_answer)
    written = session.client.revision() - revision
    expected = loaded.made if workload.writes else 0
    assert written == expected, f"{workload.name}: {loaded.made} calls made, {written} revisions of etcd's"


def _clear(session: Session, workload: Workload) -> None:
    if not workload.keys:
        session.client.delete(*new_keys())
    session.forget()

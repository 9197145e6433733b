"""How soon a proxy is ready that starts before a fleet of held instances.

The rule: what is measured is in start.py, with an etcd of its own; here its starts become samples like all others.
"""

from tests.bench import start
from tests.bench.figures import Case, Sample
from tests.bench.session import Session
from tests.bench.ways import GREENROOM

SUBJECT = "start"
ROUNDS_AT_MOST = 3


def measure(session: Session) -> None:
    """Some starts, one after the other."""
    if not session.options.wants(SUBJECT):
        return
    instances = session.options.held_at_start
    session.say(f"{SUBJECT} with {instances} held")
    rounds = min(session.options.rounds, ROUNDS_AT_MOST)
    for number, one in enumerate(start.measure(instances, rounds), 1):
        figures = {"seconds": one.ready_seconds, "start_cpu_seconds": one.cpu_seconds}
        session.samples.append(Sample(Case(SUBJECT, instances), GREENROOM, number, figures))

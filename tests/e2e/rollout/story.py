"""The rollout itself: a new worker of the model that an old one serves, and what becomes of it.

The rule: each chapter tells the timeline what happens and notes what was to be seen; whether it was is for who reads.
"""

import time

from greenroom.client import GateState, State
from tests.e2e.rollout.clients import STREAM_TOKENS, Stream
from tests.e2e.rollout.site import CHECK_SECONDS, COMPLETION, GOLDEN, MODEL, WORDS, Site, gate_of
from tests.e2e.rollout.workers import STARTUP_SECONDS, CountedMocker
from tests.support.http import Answer, ask

STREAMS = 4
"""Long answers at once, at least; workers get requests in turn."""
HOLD = "incident-4711"
PASSED = "passed"
"""The runner's word for a check that has passed."""
MOST_FAILURES = 3
"""That are told in full: the others are mostly the same."""
OUT_SECONDS = 2.0
"""So long after a withdrawal a frontend may still choose the worker."""


def failing_gate(site: Site) -> CountedMocker:
    """A new worker whose golden prompt is answered otherwise than expected: rejected, and never seen by a client."""
    told = site.told
    told.chapter("1. A new worker fails a gate: it stays out")
    site.expect_golden(text="hello yourself")
    worker = site.new_worker("new worker")
    instance = site.wait_state(worker.instance, State.REJECTED)
    frontends, reason = site.frontends_of(worker), gate_of(instance, GOLDEN).reason
    told.tell("runner", f"asked through a frontend on a preview, which sees this worker alone: {', '.join(frontends)}")
    told.check("its gates asked the new worker through a preview, and a frontend for it alone", len(frontends) == 1)
    told.check("the reason is what it answered", "expected 'hello yourself' and got 'w" in reason)
    before, moment = site.old.requests(), time.time()
    chats = site.clients.begun_after(moment)
    by_old = sum(chat.worker == site.old.instance for chat in chats)
    told.tell("clients", f"of {len(chats)} more chats the old worker answers {by_old}")
    told.tell(worker.name, f"has been asked {worker.requests()} times by its own counter, for its gates")
    told.check("the rejected worker was asked by its gates and by nobody else", site.only_gates_asked(worker))
    told.check("no client was answered by the rejected worker", not site.clients.by(worker.instance))
    told.check("the old worker serves all clients", by_old == len(chats) <= site.old.requests() - before)
    _unhealthy(site, reason)
    return worker


def _unhealthy(site: Site, reason: str) -> None:
    live, health = ask(f"{site.runner.url}/live"), _health(site)
    reasons = health.json["validation"]["reasons"]
    for said in reasons:
        site.told.tell("", said)
    site.told.check("/live of its runner is 200 all the same", live.status == 200)
    site.told.check("/health of its runner is 503", health.status == 503)
    site.told.check("/health has the reason", any(reason in said for said in reasons))


def _health(site: Site) -> Answer:
    health = site.runner.health()
    meant = "is ready, and an old one may go" if health.status == 200 else "is not ready, and no old one goes"
    site.told.tell("runner", f"/health is {health.status}: its pod {meant}")
    return health


def retry(site: Site, worker: CountedMocker) -> CountedMocker:
    """What was expected was wrong; it is put right, and the gate is tried again."""
    told = site.told
    told.chapter("2. What was wrong is put right, and the gate tried again: released")
    site.expect_golden(regex=WORDS)
    site.operator("retry", worker.instance, GOLDEN, "--reason", "the golden file was of another model")
    released(site, worker)
    completion = gate_of(site.control.instance(worker.instance), COMPLETION)
    told.check("its other gate, a completion, has passed too", completion.state is GateState.PASSED)
    told.eventually("/health of its runner is 200", lambda: site.runner.health().status == 200, CHECK_SECONDS)
    _health(site)
    return worker


def released(site: Site, worker: CountedMocker, which: str = "new") -> None:
    """Waits for the release and the first client; says how long it took from the last verdict to that answer."""
    instance = site.wait_state(worker.instance, State.RELEASED)
    first = site.clients.wait_by(worker.instance)
    last_verdict = max(gate.decided_time.timestamp() for gate in instance.gates if gate.decided_time)
    took = first.ended - last_verdict
    site.told.tell("clients", f"the first is answered by the {which} worker {took:.2f} s after the last verdict")
    site.took.append((f"{which} worker, instance {worker.instance}", took))
    site.told.check(f"no client was answered by the {which} worker before its last verdict", first.ended > last_verdict)


def withdrawal(site: Site, worker: CountedMocker) -> CountedMocker:
    """An operator takes it out again while it answers."""
    told = site.told
    told.chapter("3. It is withdrawn while it answers: no new requests, and what it answers comes to its end")
    streams = _streams(site, worker)
    own = [stream for stream in streams if stream.worker == worker.instance]
    told.tell("clients", f"ask for {len(streams)} long answers, {len(own)} of which the {worker.name} is giving")
    withdrawn = time.time()
    site.withdraw(worker, "answers got slow")
    in_flight = worker.in_flight()
    told.tell(worker.name, f"is in the middle of {in_flight} answers, by its own counter")
    site.clients.begun_after(withdrawn + OUT_SECONDS)
    for stream in streams:
        stream.join()
    whole = sum(stream.is_whole for stream in streams)
    told.tell("clients", f"have all {STREAM_TOKENS} tokens of {whole} of the {len(streams)} long answers")
    told.check("the withdrawn worker was in the middle of answers", 0 < len(own) <= in_flight)
    told.check("every answer in flight came to its end", whole == len(streams))
    _out(site, worker, withdrawn, len(own))
    return worker


def _streams(site: Site, worker: CountedMocker) -> list[Stream]:
    """Long answers that have begun, some of them the worker's."""
    streams: list[Stream] = []
    while len(streams) < STREAMS or all(stream.worker != worker.instance for stream in streams):
        streams.append(site.clients.stream())
    return streams


def _out(site: Site, worker: CountedMocker, withdrawn: float, streams: int) -> None:
    answered = site.clients.by(worker.instance)
    last = max(chat.started for chat in answered)
    late = max(0.0, last - withdrawn)
    site.told.tell("clients", f"none that asked later than {late:.2f} s after the withdrawal is answered by it")
    site.told.check("no client reached the withdrawn worker after 2 s", late <= OUT_SECONDS)
    known = site.only_gates_asked(worker, but=len(answered) + streams)
    site.told.check("the withdrawn worker's own counter knows of clients and gates, and of nobody else", known)


def restart(site: Site, worker: CountedMocker) -> CountedMocker:
    """The same worker again is another instance, whatever was known of the one before.

    It dies without a word: its lease, and its record with the withdrawal, are there for a while beside the new ones.
    """
    told = site.told
    told.chapter("4. It is killed, and started again: checked again")
    before = worker.instance
    worker.kill()
    told.tell(worker.name, "is killed: no frontend chooses it any more, so no client should notice")
    worker.start()
    told.tell(worker.name, "is started again")
    site.tell_registered(worker)
    told.check("the restarted worker is another instance", worker.instance != before)
    told.check("the restarted worker is held again", site.control.instance(worker.instance).state is State.HELD)
    released(site, worker, "restarted")
    told.check("both gates of the restarted worker were run and passed", site.runs_of(worker).count(PASSED) == 2)
    return worker


def rollout_hold(site: Site) -> CountedMocker:
    """A second new worker passes all of its gates while releases are stopped."""
    told = site.told
    told.chapter("5. An operator stops releases: a second new worker passes, and waits")
    site.operator("rollout-hold", "create", "--id", HOLD, "--reason", "incident 4711", "--selector", f"model={MODEL}")
    worker = site.new_worker("2nd worker")
    instance = site.wait_passed(worker.instance)
    told.tell("greenroom", f"keeps it all the same: {', '.join(instance.rollout_holds)}")
    chats = site.clients.begun_after(time.time())
    with_it = sum(chat.worker == worker.instance for chat in chats)
    told.tell("clients", f"of {len(chats)} more chats it answers {with_it}")
    waits = instance.state is State.HELD and HOLD in instance.rollout_holds
    told.check("the rollout hold is why the second worker waits", waits)
    told.check("under the rollout hold it is asked by its gates and by nobody else", site.only_gates_asked(worker))
    told.check("no client is answered by it under the rollout hold", not site.clients.by(worker.instance))
    lifted = time.time()
    site.operator("rollout-hold", "lift", HOLD)
    site.wait_only_state(worker.instance, State.RELEASED)
    first = site.clients.wait_by(worker.instance)
    told.tell("clients", f"the first is answered by it {first.ended - lifted:.2f} s later")
    told.check("once it is lifted the second worker answers clients", first.ended > lifted)
    return worker


def conclude(site: Site) -> None:
    """The clients stop: how many chats there were, and that each was answered, whole and in good order."""
    told = site.told
    told.chapter("In all")
    site.clients.stop()
    chats, streams, failures = site.clients.chats, site.clients.streams, site.clients.failures
    slowest = max(chat.ended - chat.started for chat in chats)
    told.tell("clients", f"{len(chats)} chats and {len(streams)} long ones, {len(failures)} failed")
    for failure in failures[:MOST_FAILURES]:
        told.tell("", failure)
    told.tell("", f"the slowest took {slowest:.2f} s, though no new worker can answer in its first {STARTUP_SECONDS} s")
    for name, took in site.took:
        told.tell("", f"{name}: {took:.2f} s from the last verdict to the first request served")
    told.check("no chat of a client has failed", not failures)

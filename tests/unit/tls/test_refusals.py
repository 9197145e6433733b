"""Clients that were not let in are counted all, and told now and then."""

from greenroom.tls.refusals import EVERY_SECONDS, Refusals
from tests.support.control_side import EventLog


def test_a_flood_is_one_line_in_a_while() -> None:
    log, now = EventLog(), [100.0]
    refusals = Refusals("listen", clock=lambda: now[0], log=log)
    for _ in range(3):
        refusals.refused("certificate has expired")
    now[0] += EVERY_SECONDS
    refusals.refused("http request")
    assert refusals.number == 4
    assert [(entry["reason"], entry["clients"]) for entry in log.named("tls.client.refused")] == [
        ("certificate has expired", 1),
        ("http request", 3),
    ]

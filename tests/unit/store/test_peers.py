"""Other proxies, and who goes by another policy."""

from typing import Any

from greenroom.store.peers import Peers
from tests.support.control_side import EventLog


def said(policy: str) -> dict[str, Any]:
    return {"address": "a:1", "host": "node1", "policy": policy}


def test_a_difference_is_told_once_with_both_digests_and_again_when_it_is_over() -> None:
    log = EventLog()
    peers = Peers("ours", log=log)
    for _ in range(2):
        peers.seen({"two": said("theirs")})
    [differs] = log.events
    assert (differs["event"], differs["level"], differs["proxy"]) == ("policy.differs", "warning", "two")
    assert (differs["digest"], differs["other_digest"]) == ("ours", "theirs")
    assert peers.differing == {"two"}
    peers.seen({"two": said("ours")})
    assert [event["event"] for event in log.events] == ["policy.differs", "policy.agrees"]
    assert peers.differing == set()


def test_another_difference_is_told_too() -> None:
    log = EventLog()
    peers = Peers("ours", log=log)
    peers.seen({"two": said("theirs")})
    peers.seen({"two": said("newer")})
    assert [event["other_digest"] for event in log.named("policy.differs")] == ["theirs", "newer"]


def test_after_a_change_here_everybody_is_compared_anew() -> None:
    log = EventLog()
    peers = Peers("old", log=log)
    peers.seen({"two": said("old")})
    peers.policy_changed("new")
    assert peers.differing == {"two"}
    peers.seen({"two": said("old")})
    assert [(event["digest"], event["other_digest"]) for event in log.events] == [("new", "old")]
    peers.policy_changed("old")
    peers.seen({"two": said("old")})
    assert [event["event"] for event in log.events] == ["policy.differs", "policy.agrees"]


def test_who_is_gone_is_forgotten_and_warned_of_when_he_comes_back() -> None:
    log = EventLog()
    peers = Peers("ours", log=log)
    for seen in ({"two": said("theirs")}, {}, {"two": said("theirs")}):
        peers.seen(seen)
    assert len(log.named("policy.differs")) == 2


def test_one_that_says_nothing_differs() -> None:
    peers = Peers("ours", log=EventLog())
    peers.seen({"odd": {}})
    assert peers.differing == {"odd"}
    assert peers.known["odd"].address == ""

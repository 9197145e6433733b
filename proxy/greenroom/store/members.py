"""Which of etcd's members are of use, as far as is known.

The rule: nothing happens here. Others tell what they learned, and ask whom to turn to.
"""

import itertools
from collections.abc import Sequence
from enum import IntEnum

Address = tuple[str, int]

FAILURES = 2
FAILING_SECONDS = 2.0
"""So often and so long in a row: an answer that got lost, or an election, is no reason to disconnect anybody."""
STEADY_SECONDS = 5.0
"""A member that was bad answers for so long without a failure before anybody is sent to it from another one.

One that is slow half of the time would have its clients sent away, and others sent to it, again and again; and where
the whole cluster was away, so much later than the first of its members may the others come back.
"""


class Standing(IntEnum):
    """What is known of a member. The smaller, the better."""

    GOOD = 0
    RETURNING = 1
    """It was bad and answers again, not yet for long."""
    UNKNOWN = 2
    BAD = 3


class _Member:
    """What was told of one member. `since`: when its present run of answers, or of failures, began."""

    __slots__ = ("failures", "reason", "since", "standing")

    def __init__(self) -> None:
        self.standing = Standing.UNKNOWN
        self.failures = 0
        self.since = 0.0
        self.reason = "not asked yet"


class Members:
    """The members by their addresses, each of them unknown until it was told of. Times are monotonic seconds."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        if not addresses:
            raise ValueError("at least one address of etcd's is needed")
        self.addresses = tuple(dict.fromkeys(addresses))
        self._members = {address: _Member() for address in self.addresses}
        self._turn = itertools.count()

    def answered(self, address: Address, now: float) -> None:
        """It proved itself."""
        member = self._members[address]
        if member.standing is Standing.UNKNOWN or member.failures:
            member.since = now
        member.failures = 0
        was_bad = member.standing in (Standing.BAD, Standing.RETURNING)
        if was_bad and now - member.since < STEADY_SECONDS:
            member.standing, member.reason = Standing.RETURNING, "answers again, not yet for long"
        else:
            member.standing, member.reason = Standing.GOOD, "answers"

    def failed(self, address: Address, reason: str, *, asked: float, now: float) -> None:
        """It did not prove itself when `asked`."""
        member = self._members[address]
        if not member.failures:
            member.since = asked
        member.failures += 1
        if member.standing is not Standing.GOOD:
            member.reason = reason
        if member.failures >= FAILURES and now - member.since >= FAILING_SECONDS:
            member.standing, member.reason = Standing.BAD, reason

    def standing(self, address: Address) -> Standing:
        """What is known of one."""
        return self._members[address].standing

    def in_order(self) -> list[Address]:
        """All of them, the best first. Each call begins with the next one of those that are alike."""
        return self.best_from(next(self._turn))

    def best_from(self, number: int) -> list[Address]:
        """All of them, the best first, and those that are alike in their order from the one of that number on."""
        first = number % len(self.addresses)
        return sorted((*self.addresses[first:], *self.addresses[:first]), key=self.standing)

    def is_to_be_left(self, address: Address, asked: float) -> bool:
        """Whether it is bad and another one is good, and was so already when this one was `asked` in vain.

        When a cluster comes back its members answer one after the other, and the first of them is good only when the
        slower ones had their time. One that missed an answer or two, as in an election, is good from its next one on.
        """
        if self.standing(address) is not Standing.BAD:
            return False
        others = self._members.values()
        return any(one.standing is Standing.GOOD and not one.failures and one.since <= asked for one in others)

    def told(self) -> dict[str, str]:
        """For people: what is known of each member, by its address."""
        return {address_text(address): self._members[address].reason for address in self.addresses}

    def up(self) -> dict[str, bool]:
        """For monitoring: whether each member is known to be good, by its address."""
        return {address_text(address): self.standing(address) is Standing.GOOD for address in self.addresses}


def address_text(address: Address) -> str:
    """`host:port`, for logs and labels."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

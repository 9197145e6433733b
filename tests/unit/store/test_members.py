"""What is made of what is told of etcd's members."""

import pytest

from greenroom.store.members import FAILING_SECONDS, STEADY_SECONDS, Address, Members, Standing, address_text

A, B, C = ("10.0.0.1", 2379), ("10.0.0.2", 2379), ("10.0.0.3", 2379)


def members(*, good: tuple[Address, ...] = (), bad: tuple[Address, ...] = ()) -> Members:
    made = Members((A, B, C))
    for address in good:
        made.answered(address, 10)
    for address in bad:
        fail(made, address, 10)
        fail(made, address, 10 + FAILING_SECONDS)
    return made


def fail(made: Members, address: Address, asked: float, *, took: float = 0) -> Standing:
    """One probe in vain, and what is known of the member after it."""
    made.failed(address, "refused", asked=asked, now=asked + took)
    return made.standing(address)


def test_without_an_address_there_is_nothing_to_be_done() -> None:
    with pytest.raises(ValueError, match="address"):
        Members(())


def answer(made: Members, address: Address, now: float) -> Standing:
    """One probe that was answered, and what is known of the member after it."""
    made.answered(address, now)
    return made.standing(address)


def test_failures_in_a_row_make_a_member_bad_and_answers_in_a_row_good() -> None:
    made = members(good=(A,))
    assert fail(made, A, 20) is Standing.GOOD
    assert answer(made, A, 21) is Standing.GOOD
    assert fail(made, A, 22) is Standing.GOOD
    assert fail(made, A, 22 + FAILING_SECONDS) is Standing.BAD
    assert answer(made, A, 30) is Standing.RETURNING
    assert answer(made, A, 29.9 + STEADY_SECONDS) is Standing.RETURNING
    assert answer(made, A, 30 + STEADY_SECONDS) is Standing.GOOD
    assert answer(made, A, 31 + STEADY_SECONDS) is Standing.GOOD


def test_a_member_that_is_slow_half_of_the_time_is_left_once_and_nobody_is_sent_to_it() -> None:
    """Its disk stalls for some seconds, again and again: its clients would be disconnected each time."""
    made = members(good=(A, B))
    fail(made, A, 20)
    assert fail(made, A, 23) is Standing.BAD
    for stall in range(30, 100, 7):
        for second in range(4):
            assert answer(made, A, stall + second) is Standing.RETURNING
            assert made.best_from(0)[0] == B
        assert fail(made, A, stall + 4) is Standing.RETURNING, "one answer that is missing makes nobody bad"
        assert not made.is_to_be_left(A, stall + 4)
        if stall % 2:
            assert fail(made, A, stall + 6) is Standing.BAD
            assert made.is_to_be_left(A, stall + 6)


def test_one_that_answers_again_is_better_than_one_that_does_not() -> None:
    """Where no member is good, somebody has to be asked."""
    made = members(bad=(A, B))
    answer(made, B, 20)
    assert made.best_from(0) == [B, C, A]
    assert (made.told()["10.0.0.2:2379"], made.up()["10.0.0.2:2379"]) == ("answers again, not yet for long", False)
    fail(made, B, 21)
    assert made.told()["10.0.0.2:2379"] == "refused"
    answer(made, B, 22)
    assert made.told()["10.0.0.2:2379"] == "answers again, not yet for long"


def test_an_election_makes_nobody_bad() -> None:
    """Members without a leader say so at once, as often as they are asked; a new one is there in a second or two."""
    made = members(good=(A,))
    for number in range(10):
        assert fail(made, A, 20 + number * FAILING_SECONDS / 10) is Standing.GOOD


def test_one_answer_that_is_late_makes_nobody_bad() -> None:
    made = members(good=(A,))
    assert fail(made, A, 20, took=10) is Standing.GOOD


def test_a_silent_member_is_bad_after_its_second_probe() -> None:
    """It was of no use from the time on when the first one was sent, not only since that was given up."""
    made = members(good=(A,))
    fail(made, A, 20, took=10)
    assert fail(made, A, 30, took=0.1) is Standing.BAD


def test_those_that_are_alike_take_turns() -> None:
    made = members(good=(A, B, C))
    assert [made.in_order()[0] for _ in range(4)] == [A, B, C, A]
    assert made.in_order() == [B, C, A]


@pytest.mark.parametrize("turn", range(3))
def test_good_ones_come_first_and_bad_ones_last(turn: int) -> None:
    made = members(good=(C,), bad=(A,))
    for _ in range(turn):
        made.in_order()
    assert made.in_order() == [C, B, A]


def test_a_good_one_stays_in_use_and_a_bad_one_does_not() -> None:
    made = members(good=(A, B), bad=(C,))
    assert made.best_from(1)[0] == B
    assert made.best_from(2)[0] == A


@pytest.mark.parametrize(
    ("good", "bad", "expected"),
    [
        ((A, B), (C,), [C]),
        ((B,), (A, C), [A, C]),
        # Nobody is sent from one member that is of no use to another, or to one of which nothing is known.
        ((), (A, B, C), []),
        ((), (A, B), []),
        ((A,), (), []),
    ],
)
def test_bad_members_are_left_only_for_a_good_one(
    good: tuple[Address, ...], bad: tuple[Address, ...], expected: list[Address]
) -> None:
    made = members(good=good, bad=bad)
    assert [address for address in made.addresses if made.is_to_be_left(address, 20)] == expected


def test_a_member_that_comes_back_some_seconds_later_than_another_is_not_left() -> None:
    """The whole cluster was away, and its members start one after the other."""
    made = members(bad=(A, B))
    for second in range(int(STEADY_SECONDS)):
        made.answered(A, 20 + second)
        fail(made, B, 20.1 + second)
        assert not made.is_to_be_left(B, 20.1 + second)
    made.answered(A, 20 + STEADY_SECONDS)
    assert made.is_to_be_left(B, 20.1 + STEADY_SECONDS), "it had its time"


def test_a_member_that_was_asked_before_another_one_was_known_is_not_left_for_it() -> None:
    """The first moments of a proxy."""
    made = members(bad=(B,))
    made.answered(A, 20)
    assert not made.is_to_be_left(B, 19.9)
    assert made.is_to_be_left(B, 20.1)


def test_nobody_is_sent_to_a_member_that_begins_to_fail() -> None:
    made = members(good=(A,), bad=(B,))
    fail(made, A, 20)
    assert not made.is_to_be_left(B, 21)
    made.answered(A, 22)
    assert not made.is_to_be_left(B, 21.9)
    assert made.is_to_be_left(B, 22.1)


def test_people_and_monitoring_are_told_of_each() -> None:
    made = members(good=(A,), bad=(B,))
    assert made.told() == {"10.0.0.1:2379": "answers", "10.0.0.2:2379": "refused", "10.0.0.3:2379": "not asked yet"}
    assert made.up() == {"10.0.0.1:2379": True, "10.0.0.2:2379": False, "10.0.0.3:2379": False}


def test_until_it_is_bad_a_good_member_is_shown_as_good() -> None:
    made = members(good=(A,))
    fail(made, A, 20)
    fail(made, B, 20)
    assert (made.told()["10.0.0.1:2379"], made.told()["10.0.0.2:2379"]) == ("answers", "refused")
    assert made.up()["10.0.0.1:2379"]


def test_an_address_given_twice_is_one_member() -> None:
    assert Members((A, B, A)).in_order() == [A, B]


def test_an_address_is_written_as_in_a_url() -> None:
    assert [address_text(address) for address in (A, ("::1", 1))] == ["10.0.0.1:2379", "[::1]:1"]

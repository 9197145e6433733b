"""Who is asked when."""

from greenroom.relay.rounds import TURN_SECONDS, Rounds


class Asked:
    """Answers with one wish after the other, then with None."""

    def __init__(self, *wishes: float) -> None:
        self.turn = 0
        self.wishes = list(wishes)
        self.times: list[float] = []

    def tick(self, now: float) -> float | None:
        self.times.append(now)
        return self.wishes.pop(0) if self.wishes else None


def turns(rounds: Rounds, start: float, number: int) -> None:
    for turn in range(number):
        rounds.ask(start + turn * TURN_SECONDS)


def test_each_is_asked_when_it_said_and_not_before() -> None:
    rounds = Rounds()
    asked = Asked(2.0, 0.2, 5.0)
    rounds.add(asked, 100.1)
    turns(rounds, 100.1, 30)
    assert [round(time, 1) for time in asked.times] == [100.6, 103.1, 103.6, 109.1]
    assert len(rounds) == 0


def test_the_first_question_can_be_put_off() -> None:
    rounds = Rounds()
    asked = Asked()
    rounds.add(asked, 7.0, 1.5)
    turns(rounds, 7.0, 5)
    assert asked.times == [8.5]


def test_turns_that_were_missed_are_made_up_for() -> None:
    """A process that was stopped for a while, or a loop that was busy."""
    rounds = Rounds()
    asked = [Asked(1.0) for _ in range(3)]
    for number, one in enumerate(asked):
        rounds.add(one, 10.0 + number)
    rounds.ask(60.0)
    assert [one.times for one in asked] == [[60.0]] * 3
    rounds.ask(61.0)
    assert [one.times for one in asked] == [[60.0, 61.0]] * 3


def test_one_that_is_removed_is_not_asked_even_by_another_that_is_asked_with_it() -> None:
    rounds = Rounds()

    class Remover(Asked):
        def tick(self, now: float) -> float | None:
            rounds.remove(self)
            for one in others:
                rounds.remove(one)
            return super().tick(now)

    others = [Asked(), Asked()]
    removers = [Remover(1.0), Remover(1.0)]
    for one in (others[0], *removers, others[1]):
        rounds.add(one, 1.0)
    rounds.remove(Asked())
    turns(rounds, 1.5, 4)
    assert sum(len(one.times) for one in others) <= 1
    assert [len(one.times) for one in removers] == [2, 2]


def test_no_wish_of_zero_seconds_keeps_the_round_going_for_ever() -> None:
    rounds = Rounds()
    asked = Asked(0.0, 0.0, 0.0)
    rounds.add(asked, 0.0)
    rounds.ask(0.5)
    assert asked.times == [0.5]

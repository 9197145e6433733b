"""Who asks at about the same time gets one answer."""

import asyncio

import pytest

from greenroom.control.shared_answer import FRESH_SECONDS, SharedAnswer


class Asked:
    """Questions that are answered when the test says so, with their number."""

    def __init__(self) -> None:
        self.questions, self.now = 0, 5.0
        self.may_answer = asyncio.Event()
        self.shared = SharedAnswer(self._ask, clock=lambda: self.now)

    async def _ask(self) -> int:
        self.questions += 1
        number = self.questions
        await self.may_answer.wait()
        return number


async def test_all_who_ask_at_once_share_one_question() -> None:
    asked = Asked()
    async with asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(asked.shared.get()) for _ in range(100)]
        await asyncio.sleep(0)
        # However long it takes: they have waited for this one.
        asked.now += 60
        asked.may_answer.set()
    assert {task.result() for task in asking} == {1}
    assert asked.questions == 1


async def test_an_answer_is_asked_for_again_once_it_is_no_longer_fresh() -> None:
    asked = Asked()
    asked.may_answer.set()
    assert await asked.shared.get() == 1
    asked.now += FRESH_SECONDS / 2
    assert await asked.shared.get() == 1
    asked.now += FRESH_SECONDS / 2
    assert await asked.shared.get() == 2


async def test_who_leaves_takes_nobody_along() -> None:
    asked = Asked()
    async with asyncio.TaskGroup() as tasks:
        first, second = (tasks.create_task(asked.shared.get()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        asked.may_answer.set()
    assert second.result() == 2


async def test_an_error_is_not_kept() -> None:
    questions = iter((OSError("away"), "here"))

    async def ask() -> str:
        match next(questions):
            case str() as answer:
                return answer
            case error:
                raise error

    shared = SharedAnswer(ask, clock=lambda: 0.0)
    with pytest.raises(OSError, match="away"):
        await shared.get()
    assert await shared.get() == "here"

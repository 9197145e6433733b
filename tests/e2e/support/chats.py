"""Users: one chat request after the other, for as long as something else is done.

The rule: every answer is kept, with what it said where it is not a chat's.
"""

import threading
from typing import Self

from tests.e2e.support.dynamo import Frontend

JOIN_SECONDS = 60
BREATH_SECONDS = 0.1
"""Between two chats of one user: this is no load test, and the machine has other things to run."""


class Chats:
    """Chats with one model through one frontend, on threads of its own, from `with` to its end."""

    def __init__(self, frontend: Frontend, model: str, *, users: int = 2) -> None:
        self._frontend = frontend
        self._model = model
        self._ended = threading.Event()
        self.statuses: list[int] = []
        self._threads = [threading.Thread(target=self._chat, name=f"user {n}", daemon=True) for n in range(users)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(JOIN_SECONDS)

    def _chat(self) -> None:
        while not self._ended.wait(BREATH_SECONDS):
            self.statuses.append(self._frontend.chat(self._model))

"""Clients of the rollout: short chats all the while, and long streamed ones. Each answer says which worker gave it.

The rule: every answer is kept, a failed one with its words.
"""

import http.client
import json
import threading
import time
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

from tests.support.http import Answer, ask
from tests.support.waiting import wait_for

JOIN_SECONDS = 60
ANSWER_SECONDS = 60
BREATH_SECONDS = 0.1
"""Between two chats of one client: this is no load test, and the machine has other things to run."""
CHAT_TOKENS, STREAM_TOKENS = 4, 1500
UNFIT = (ValueError, LookupError, TypeError)
"""What reading something raises that is not of the shape of an answer."""


@dataclass(frozen=True, slots=True)
class Chat:
    """One answer. Times are seconds since the epoch; `failure` is empty for a good one."""

    started: float
    ended: float
    worker: str
    failure: str


class Clients:
    """Chat with a model through a frontend, on threads of their own, from `with` to its end."""

    def __init__(self, frontend_url: str, model: str, *, count: int = 2) -> None:
        self._url, self._model = frontend_url, model
        self._ended = threading.Event()
        self.chats: list[Chat] = []
        self.streams: list[Stream] = []
        self._threads = [threading.Thread(target=self._chat, name=f"client {n}", daemon=True) for n in range(count)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Returns when every chat has been answered."""
        self._ended.set()
        for thread in self._threads:
            thread.join(JOIN_SECONDS)

    def stream(self) -> "Stream":
        """One long chat more, which has begun."""
        stream = Stream(self._url, self._model)
        self.streams.append(stream)
        return stream.begun()

    @property
    def failures(self) -> list[str]:
        """What went wrong, in short chats and in long ones."""
        return [one.failure for one in (*self.chats, *self.streams) if one.failure]

    def by(self, instance: str) -> list[Chat]:
        """Those that one worker answered."""
        return [chat for chat in self.chats if chat.worker == instance]

    def begun_after(self, moment: float, count: int = 20) -> list[Chat]:
        """Waits for so many chats that began later than that; all of them that there are then."""

        def later() -> list[Chat]:
            found = [chat for chat in self.chats if chat.started > moment]
            return found if len(found) >= count else []

        return wait_for(later, ANSWER_SECONDS, f"{count} more chats")

    def wait_by(self, instance: str) -> Chat:
        """The first that a worker answers."""
        return wait_for(lambda: self.by(instance), ANSWER_SECONDS, f"a client is answered by {instance}")[0]

    def _chat(self) -> None:
        while not self._ended.wait(BREATH_SECONDS):
            started = time.time()
            answer = ask(f"{self._url}/v1/chat/completions", request(self._model, CHAT_TOKENS))
            worker = _answered_by(answer)
            failure = "" if worker else f"{answer.status} {_start_of(answer.body)}"
            self.chats.append(Chat(started, time.time(), worker, failure))


class Stream:
    """One long answer, read on a thread of its own. `tokens` are those that came, `failure` why not all of them."""

    def __init__(self, frontend_url: str, model: str) -> None:
        self._address = urlsplit(frontend_url).netloc
        self._request = json.dumps(request(model, STREAM_TOKENS) | {"stream": True})
        self.worker, self.tokens, self.failure, self._done = "", 0, "", False
        self._thread = threading.Thread(target=self._read, name="stream", daemon=True)
        self._thread.start()

    def begun(self) -> Self:
        """Returns when it is known who answers."""
        wait_for(lambda: self.worker or self.failure, ANSWER_SECONDS, "a stream has begun")
        return self

    def join(self) -> Self:
        """Returns when nothing more comes."""
        self._thread.join(JOIN_SECONDS)
        assert not self._thread.is_alive(), f"a stream of {self.worker} goes on after {self.tokens} tokens"
        return self

    @property
    def is_whole(self) -> bool:
        """Whether all that was asked for has come."""
        return self._done and self.tokens == STREAM_TOKENS

    def _read(self) -> None:
        connection = http.client.HTTPConnection(self._address, timeout=ANSWER_SECONDS)
        try:
            connection.request("POST", "/v1/chat/completions", self._request, {"content-type": "application/json"})
            for line in connection.getresponse():
                self._take(line.strip())
        except (OSError, http.client.HTTPException) as error:
            self.failure = self.failure or repr(error)
        finally:
            connection.close()
        if not self.is_whole:
            self.failure = self.failure or f"it ended after {self.tokens} of {STREAM_TOKENS} tokens"

    def _take(self, line: bytes) -> None:
        """A piece of the answer, or a comment, which begins with a colon. Anything else is what went wrong."""
        if line == b"data: [DONE]":
            self._done = True
        elif line and not line.startswith(b":"):
            try:
                piece = json.loads(line.removeprefix(b"data: "))
                self.worker = worker_of(piece)
                self.tokens += bool(piece["choices"][0]["delta"].get("content"))
            except UNFIT:
                self.failure = self.failure or _start_of(line)


def request(model: str, tokens: int) -> dict[str, Any]:
    """A chat that is told who answered it."""
    message = {"role": "user", "content": "hello"}
    told = {"extra_fields": ["worker_id"]}
    return {"model": model, "messages": [message], "max_tokens": tokens, "nvext": told}


def _answered_by(answer: Answer) -> str:
    """The worker that gave it; empty where it is no good answer."""
    try:
        said = answer.status == 200 and answer.json["choices"][0]["message"]["content"]
        return worker_of(answer.json) if said else ""
    except UNFIT:
        return ""


def _start_of(answer: bytes) -> str:
    return repr(answer[:500])


def worker_of(answer: dict[str, Any]) -> str:
    """The instance that gave it, as its keys name it."""
    return f"{answer['nvext']['worker_id']['decode_worker_id']:x}"

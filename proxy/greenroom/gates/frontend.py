"""A frontend of one instance's own: it sees that instance and no other, and checks reach the instance through it.

It is a command under a guard, on a preview of the proxy's. The rule: it is there while `run` runs, and nothing of it
afterwards, neither the process nor the preview.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from greenroom.addresses import Address
from greenroom.errors import ControlError, StartError, UnknownPreview
from greenroom.gates.given_back import given_back
from greenroom.gates.guarded import Run, guarded
from greenroom.gates.http_call import CallFailed, get
from greenroom.gates.result import with_last_words
from greenroom.gates.url_place import UrlPlace
from greenroom.gates.watched import watched
from greenroom.pb.control.v1.control_pb2 import Preview
from greenroom.processes import reserved_port

PORT, ENDPOINTS = "{port}", "{etcd_endpoints}"
USUAL: Final = {
    "DYN_REQUEST_PLANE": "tcp",
    "DYN_EVENT_PLANE": "zmq",
    "DYN_LOG": "info,dynamo_llm::http::service=warn",
    "DYN_SDK_DISABLE_ANSI_LOGGING": "1",
}
"""Where nobody says otherwise: what needs no further service; and a log whose end, the reason when it does not come up,
is not full of our own requests, nor of colours."""
POLL_SECONDS: Final = 0.3
ANSWER_SECONDS: Final = 5.0
"""A frontend that is slower to list its models is asked anew."""
PREVIEW_LOOK_SECONDS: Final = 5.0
CLOSE_SECONDS: Final = 2.0
"""A proxy that is away must not hold up a runner's end: its previews end with it."""


class FrontendFailed(Exception):
    """It did not come up, or has ended: in words, with the end of its standard error."""


class Previews(Protocol):
    """Who opens, looks up and closes previews."""

    async def open_preview(self, instance: str, ttl_seconds: float) -> Preview: ...

    async def preview(self, name: str) -> Preview: ...

    async def close_preview(self, name: str) -> None: ...


@dataclass(frozen=True, slots=True)
class FrontendSettings:
    """The command, in which `{port}` and `{etcd_endpoints}` stand for what they say, and the times.

    `start_seconds`: until it lists the model; `keep_failed_seconds`: how long it stays after a failure;
    `preview_seconds`: how long its preview may stay open.
    """

    command: Sequence[str]
    start_seconds: float
    keep_failed_seconds: float
    preview_seconds: float


@dataclass(slots=True)
class Frontend:
    """The frontend of one instance. `run` in a task; `use` where it is needed."""

    instance: str
    settings: FrontendSettings
    previews: Previews
    log: Any
    port: int = field(default=0, init=False)
    """Nobody else's for as long as it runs; else its gates could ask the frontend of another instance."""
    _run: Run | None = None
    _answers: str = "it has not answered"
    _over: "asyncio.Future[str]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def url(self) -> str:
        """Where checks ask."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def is_over(self) -> bool:
        """Whether it is of no use any more."""
        return self._over.done()

    async def run(self) -> None:
        """Opens the preview, and has the frontend run on it until cancelled, or until one of the two ends."""
        try:
            with reserved_port() as self.port:
                why = await self._run_there()
        except ControlError as error:
            self._end(why := f"the preview cannot be opened: {error}")
        except StartError as error:
            self._end(why := f"the frontend cannot be started: {error}")
        except OSError as error:  # Of the guard itself.
            self._end(why := f"the frontend cannot be started: {error.strerror}")
        finally:
            self.take_down()
        self.log.warning("frontend.ended", instance=self.instance, why=why)

    def take_down(self) -> None:
        """Whoever uses it is told, also where `run` is cancelled before it has begun."""
        self._end("the frontend was taken down")

    async def _run_there(self) -> str:
        """To its end, in words."""
        async with self._previewed() as preview, self._started(preview) as run:
            self._run = run
            self.log.info("frontend.started", instance=self.instance, url=self.url, preview=preview.name)
            return await self._first(run, preview)

    @asynccontextmanager
    async def use(self, model: str) -> AsyncIterator[str]:
        """Its URL, once it lists the model. FrontendFailed where it does not in time, or no longer after the block.

        What a check found at one that broke down says nothing of the worker, and may be known sooner than its end.
        """
        async with watched(self._fail_when_over()):
            await self._listed(model)
            yield self.url
            if not await self._lists(model):
                raise FrontendFailed(self._with_last_words(f"the frontend no longer lists {model!r}: {self._answers}"))

    async def _fail_when_over(self) -> None:
        raise FrontendFailed(await asyncio.shield(self._over))

    async def _listed(self, model: str) -> None:
        try:
            async with asyncio.timeout(self.settings.start_seconds):
                while True:
                    if await self._lists(model):
                        return
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            what = f"the frontend did not list {model!r} within {self.settings.start_seconds:g} s: {self._answers}"
            why = self._with_last_words(what)
            self._end(why)  # Whoever else waits for it is told the same.
            raise FrontendFailed(why) from None

    def _with_last_words(self, what: str) -> str:
        return with_last_words(what, self._run.stderr if self._run else "")

    async def _lists(self, model: str) -> bool:
        place = UrlPlace(Address("127.0.0.1", self.port), "/v1/models")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await get(place)
        except CallFailed as error:
            self._answers = str(error)
            return False
        except TimeoutError:
            self._answers = f"it said nothing for {ANSWER_SECONDS:g} s"
            return False
        models = models_in(answer.text)
        self._answers = f"it answers {answer.status}, and lists {', '.join(models) or 'none'}"
        return model in models

    def _previewed(self) -> AbstractAsyncContextManager[Preview]:
        opening = self.previews.open_preview(self.instance, self.settings.preview_seconds)
        return given_back(opening, self._close, CLOSE_SECONDS)

    async def _close(self, preview: Preview) -> None:
        with suppress(ControlError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.previews.close_preview(preview.name)

    def _started(self, preview: Preview) -> AbstractAsyncContextManager[Run]:
        endpoints = f"http://{preview.address}"
        told = {"ETCD_ENDPOINTS": endpoints, "DYN_DISCOVERY_BACKEND": "etcd"}
        command = [word.replace(PORT, str(self.port)).replace(ENDPOINTS, endpoints) for word in self.settings.command]
        return guarded(command, {**USUAL, **os.environ, **told}, stdout=sys.stderr.fileno())

    async def _first(self, run: Run, preview: Preview) -> str:
        """Which of the two ended, in words; whoever uses it is told."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._ended(run)), group.create_task(self._closed(preview))]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
        why = done.pop().result()
        self._end(why)
        return why

    def _end(self, why: str) -> None:
        if not self._over.done():
            self._over.set_result(why)

    async def _ended(self, run: Run) -> str:
        ended = await run.ended()
        return ended.cannot_start or with_last_words(f"the frontend ended with {ended.code}", ended.stderr)

    async def _closed(self, preview: Preview) -> str:
        while True:
            await asyncio.sleep(PREVIEW_LOOK_SECONDS)
            try:
                await self.previews.preview(preview.name)
            except ControlError as error:
                if error.reason == UnknownPreview.reason:
                    return f"the frontend's preview has ended: {error}"


def models_in(text: str) -> list[str]:
    """The models that an answer of /v1/models lists; none where it is anything else."""
    try:
        return [str(one["id"]) for one in json.loads(text)["data"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []

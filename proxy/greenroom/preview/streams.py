"""How a preview's streams end: the first of several loops that ends, ends all; and a closed preview ends its streams.

The rule: a stream ends with an error that says why, unless its client has half-closed it and etcd ends it for that. A
clean end of a watch once stopped a client for good.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, NoReturn

import grpc

from greenroom.errors import PreviewClosed
from greenroom.store.call_errors import unavailable

Context = grpc.aio.ServicerContext[bytes, bytes]


class CleanEnd(Exception):
    """Raised by a loop that ends its stream with no error, as etcd does where a client wants no more answers."""


class Closing:
    """A preview's end, once it is near. Made inside the running event loop."""

    def __init__(self) -> None:
        self._words = asyncio.get_running_loop().create_future()

    def begin(self, words: str) -> None:
        """Ends every open stream, saying this; once."""
        if not self._words.done():
            self._words.set_result(words)

    async def raises(self) -> NoReturn:
        """PreviewClosed, as soon as it is so."""
        raise PreviewClosed(await asyncio.shield(self._words))


async def until_one_ends(*loops: Coroutine[Any, Any, None]) -> None:
    """Runs them side by side until one raises; its error comes out, a CleanEnd does not."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for loop in loops:
                tasks.create_task(loop)
    except BaseExceptionGroup as errors:
        first = errors.exceptions[0]
        if not isinstance(first, CleanEnd):
            raise first from None


async def messages(context: Context) -> AsyncIterator[bytes]:
    """What the client sends, until it half-closes. Requests stay bytes until they are read strictly."""
    while isinstance(data := await context.read(), bytes):
        yield data


def ended_by_etcd() -> grpc.aio.AioRpcError:
    """etcd ended a stream and gave no reason."""
    return unavailable("etcd ended the stream")

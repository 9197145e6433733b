"""Following the instances over whatever breaks: one stream after another, as if they were one.

The rule: the newest token is resumed from; where that is of no use any more the stream starts anew. Only a proxy or an
etcd that is away is waited for; everything else is for the caller.
"""

from collections.abc import Callable, Iterator, Sequence
from time import sleep
from typing import Any, Protocol, TypeVar

from greenroom.backoff import Backoff
from greenroom.client.calls import ControlCalls
from greenroom.errors import ControlError
from greenroom.pb.control.v1.control_pb2 import WatchInstancesResponse

NewsT = TypeVar("NewsT")
News_co = TypeVar("News_co", covariant=True)


class Listener(Protocol[News_co]):
    """Who makes something of the responses, and keeps the token."""

    def begin(self) -> str:
        """A stream begins: the token to resume from, empty for a new start."""

    def forget_token(self) -> None:
        """It is of no use: the next stream starts anew."""

    def take(self, response: WatchInstancesResponse) -> Sequence[News_co]:
        """What a response tells."""


class Trouble:
    """Tells of an outage once, and once of its end."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._is_away = say, False

    def met(self, error: ControlError) -> None:
        """A stream ended. ControlError again where asking once more cannot help."""
        if not error.may_pass:
            raise error
        if not self._is_away:
            self._say(f"greenroom: {error}; asking again until it answers")
        self._is_away = True

    def over(self) -> None:
        """A stream tells again."""
        if self._is_away:
            self._say("greenroom: it answers again")
        self._is_away = False


def streamed(calls: ControlCalls, listener: Listener[NewsT], **filters: Any) -> Iterator[Sequence[NewsT]]:
    """What one stream tells, resumed where the one before broke; ControlError where it ends, as it does at last."""
    try:
        for response in calls.watch_instances(listener.begin(), **filters):
            yield listener.take(response)
    except ControlError as error:
        if error.reason != ControlError.HISTORY_GONE:
            raise
        listener.forget_token()
        yield from streamed(calls, listener, **filters)


def followed(
    calls: ControlCalls, listener: Listener[NewsT], trouble: Trouble, **filters: Any
) -> Iterator[Sequence[NewsT]]:
    """What every stream tells, without end."""
    backoff = Backoff()
    while True:
        try:
            for news in streamed(calls, listener, **filters):
                trouble.over()
                backoff.reset()
                yield news
        except ControlError as error:
            trouble.met(error)
        sleep(backoff.next_seconds())

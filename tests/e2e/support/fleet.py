"""A whole small fleet: proxy, workers behind it, frontends, and a beacon that makes "not seen" mean something.

Rule: a frontend is asked about what it must not show only after it has shown a later change; else its silence
proves nothing.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.e2e.support.dynamo import Dynamo, Frontend, Mocker, PythonWorker, Worker
from tests.e2e.support.store import Store
from tests.support.greenroom import Greenroom
from tests.support.watching import WatchLog

BEACON = "beacon"
MOCKED = "tiny"
HANDMADE = "handmade"
LORA = "polite"


@dataclass(frozen=True, slots=True)
class Fleet:
    """`beacon` is registered on etcd itself, ungated; `public` reads etcd, `inside` reads through the proxy; `seen` is
    what a watcher of etcd has been told of cards since before the first worker.
    """

    store: Store
    greenroom: Greenroom
    mocker: Mocker
    worker: PythonWorker
    beacon: PythonWorker
    public: Frontend
    inside: Frontend
    seen: WatchLog

    @property
    def frontends(self) -> tuple[Frontend, Frontend]:
        return self.public, self.inside

    def models(self) -> list[set[str]]:
        """What each frontend lists, once each, and the watcher, has followed etcd up to now."""
        self.beacon.must("register")
        self.seen.wait_revision(self.store.entry(self.beacon.card_key).mod_revision)
        for frontend in self.frontends:
            frontend.wait_listed(BEACON)
        self.beacon.must("unregister")
        for frontend in self.frontends:
            frontend.wait_unlisted(BEACON)
        return [frontend.models() for frontend in self.frontends]

    def told(self, worker: Worker) -> list[list[bytes]]:
        """The keys of a worker's cards that the watcher was told of, one list a response; ask after `models`."""
        batches = ([key for key in batch if key.startswith(worker.card_key)] for batch in self.seen.batches())
        return [batch for batch in batches if batch]

    def chats(self, model: str) -> list[int]:
        """What each frontend answers a chat; ask after `models`, which brings them up to date."""
        return [frontend.chat(model) for frontend in self.frontends]

    def wait_chats(self, model: str) -> None:
        for frontend in self.frontends:
            frontend.wait_chat(model)


@contextmanager
def held_fleet(dynamo: Dynamo, store: Store) -> Iterator[Fleet]:
    """Everything started, a mocker and a commanded worker registered through the proxy, no verdict given yet."""
    direct = dynamo.environment(store.url)
    with ExitStack() as stack:
        seen = stack.enter_context(store.watch_cards())
        greenroom = stack.enter_context(Greenroom(store.url, dynamo.folder))
        gated = dynamo.environment(greenroom.url)
        public = stack.enter_context(Frontend(dynamo, direct))
        inside = stack.enter_context(Frontend(dynamo, gated, name="frontend-inside"))
        mocker = stack.enter_context(Mocker(dynamo, store, gated, component="backend", model=MOCKED))
        worker = stack.enter_context(PythonWorker(dynamo, store, gated, component="hand", model=HANDMADE))
        beacon = stack.enter_context(PythonWorker(dynamo, store, direct, component="beacon", model=BEACON))
        worker.must("register")
        yield Fleet(store, greenroom, mocker, worker, beacon, public, inside, seen)

"""Workers of the rollout: mockers that count their requests themselves.

The rule: what a worker was asked is read from the worker's own page, never from who asked.
"""

import re
from typing import Self

from tests.e2e.support.dynamo import Dynamo, Mocker, PythonWorker
from tests.e2e.support.store import RESERVED, Store
from tests.support.http import ask
from tests.support.ports import free_port

COMPONENT = "backend"
STARTUP_SECONDS = 3
"""What a real engine needs minutes for. A mocker registers before that, and its first answers wait."""
SPEEDUP = 2
"""About 200 tokens a second: a long answer is still being written when something happens to its worker."""


class CountedMocker(Mocker):
    """A mocker with a page of its own. Several may be in one component, if one is started after the other."""

    def __init__(
        self,
        dynamo: Dynamo,
        store: Store,
        environment: dict[str, str],
        *more_arguments: str,
        model: str,
        name: str,
        component: str = COMPONENT,
    ) -> None:
        port = free_port()
        self._page = f"http://127.0.0.1:{port}/metrics"
        self._others: set[bytes] = set()
        own = {"DYN_SYSTEM_HOST": "127.0.0.1", "DYN_SYSTEM_PORT": str(port)}
        super().__init__(dynamo, store, environment | own, component=component, model=model)
        self.command += ["--speedup-ratio", str(SPEEDUP), *more_arguments]
        self.name, self.log_path = name, dynamo.folder / f"{name.replace(' ', '-')}.log"

    def start(self) -> Self:
        self._others = set(self.store.keys(self.instances_prefix))
        return super().start()

    def ready(self) -> None:
        """Once it can be called; its id is known from then on."""
        (key,) = self.wait_ready(self._own_keys, "has registered its instance")
        self.lease_id = int(key.rpartition(b"/")[2], 16)

    def requests(self) -> int:
        """How many it has been asked, by its own counter."""
        return self._measured("requests_total")

    def in_flight(self) -> int:
        """How many it is answering."""
        return self._measured("inflight_requests")

    def _own_keys(self) -> set[bytes]:
        return set(self.store.keys(self.instances_prefix)) - self._others

    def _measured(self, name: str) -> int:
        answer = ask(self._page)
        assert answer.status == 200, f"{self.name} shows no counters: {answer}"
        counter = rf'^dynamo_component_{name}{{.*dynamo_endpoint="generate".*}} (\d+)$'
        (found,) = re.findall(counter, answer.body.decode(), re.MULTILINE)
        return int(found)


class HeldAddressWorker(PythonWorker):
    """A commanded worker whose instance record is to be held too, beside others of its component."""

    def __init__(
        self, dynamo: Dynamo, store: Store, environment: dict[str, str], *, component: str, model: str
    ) -> None:
        super().__init__(dynamo, store, environment, component=component, model=model)
        self.log_path = dynamo.folder / f"{self.name}-held.log"

    def wait_instance_key(self) -> None:
        self.lease_id = int(self.must("id"), 16)
        public = self.instances_prefix + self.instance.encode()
        held = RESERVED + b"held/" + self.instance.encode() + b"/" + public
        self.wait_ready(lambda: self.store.keys(held) or self.store.keys(public), "has registered its instance")

"""One client program run twice at once: on etcd itself, and through a proxy before another etcd.

The rule: what the proxy's side does between two steps costs the store as many revisions as what the direct side does in
its place. A release is two verdicts here, and there the cards are taken away and put anew.
"""

import json
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import grpc

from tests.support.client import delete, put
from tests.support.crowd_figures import proxy_metric
from tests.support.endpoints import Endpoint, Proxy
from tests.support.plan import Step
from tests.support.plan_calls import METHODS, SERVICE, Line, Memory, answered, failed, request_of

CARDS = b"v1/mdc/"
LAST_WORDS = 3000
CALL_SECONDS = 20
RUN_SECONDS = 110


class Command(Protocol):
    """The command line of a client program on one address."""

    def __call__(self, address: str, plan: Path) -> Sequence[str]: ...


@dataclass(slots=True)
class Side:
    """One of the two: what happens there beside the client."""

    endpoint: Endpoint
    memory: Memory = field(default_factory=Memory)
    said: list[Line] = field(default_factory=list)
    """Answers to the calls that were made aside, in place of the client's own lines."""

    def aside(self, step: Step) -> Line:
        if step["what"] == "release":
            self._release(step["instance"])
            return {"released": step["instance"]}
        return self._call(step["step"])

    def _release(self, instance: str) -> None:
        if isinstance(self.endpoint, Proxy):
            assert self.endpoint.control.pass_gates(instance) == "RELEASED"
            return
        client, lease = self.endpoint.public, int(instance, 16)
        cards = [card for card in client.prefix(CARDS).kvs if card.lease == lease]
        client.txn([], [delete(card.key) for card in cards])
        client.txn(
            [], [put(card.key, card.value, lease) for card in sorted(cards, key=lambda card: card.create_revision)]
        )

    def _call(self, step: Step) -> Line:
        path, request, response = METHODS[step["do"]]
        method = self.endpoint.client.channel.unary_unary(
            SERVICE + path, request_serializer=request.SerializeToString, response_deserializer=response.FromString
        )
        try:
            answer = method(request_of(step, self.memory), timeout=CALL_SECONDS)
        except grpc.RpcError as error:
            return failed(error)
        self.memory.take(step, answer)
        return answered(answer)


def run_on_both(
    command: Command,
    steps: Sequence[Step],
    sides: Sequence[Endpoint],
    folder: Path,
    environment: dict[str, str],
    *,
    connections: int = 1,
) -> list[list[Line]]:
    """The log of each side, a line a step. AssertionError with a client's last words where it ends before its plan.

    And where it took another number of connections for it: what it shows is that they serve for all.
    """
    path = folder / "plan.json"
    path.write_text(json.dumps(list(steps)))

    def run(endpoint: Endpoint) -> list[Line]:
        before = _opened(endpoint)
        lines = _run(command, path, Side(endpoint), environment)
        if isinstance(endpoint, Proxy):
            opened = _opened(endpoint) - before
            assert opened == connections, f"the client used {opened} connections, not {connections}"
        return lines

    with ThreadPoolExecutor(len(sides)) as pool:
        return list(pool.map(run, sides))


def _opened(endpoint: Endpoint) -> int:
    """How many connections clients ever made; etcd itself does not count them."""
    return proxy_metric(endpoint, "greenroom_connections_opened_total") if isinstance(endpoint, Proxy) else 0


def _run(command: Command, plan: Path, side: Side, environment: dict[str, str]) -> list[Line]:
    child = subprocess.Popen(
        command(side.endpoint.address, plan),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
    )
    # A client that hangs must not hang the tests.
    watchdog = threading.Timer(RUN_SECONDS, child.kill)
    watchdog.start()
    try:
        with child, ThreadPoolExecutor(1) as pool:
            assert child.stderr is not None
            complaints = pool.submit(child.stderr.read)
            try:
                lines = _lines(child, side.aside)
            except BaseException:
                child.kill()
                raise
            status = child.wait()
    finally:
        watchdog.cancel()
        child.kill()
    assert status == 0, f"the client ended with status {status}:\n{complaints.result()[-LAST_WORDS:]}"
    return lines


def _lines(child: "subprocess.Popen[str]", aside: Callable[[Step], Line]) -> list[Line]:
    assert child.stdin is not None
    assert child.stdout is not None
    lines: list[Line] = []
    for text in child.stdout:
        line: dict[str, Any] = json.loads(text)
        if "aside" in line:
            done = aside(line.pop("aside"))
            line = {**line, **done}
            child.stdin.write(f"{line.get('lane', 0)}\n")
            child.stdin.flush()
        lines.append(line)
    return lines

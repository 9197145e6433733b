"""Runs a plan on synchronous grpcio, one step after the other, on our own generated messages.

Usage: in_order.py ADDRESS PLAN CONNECTIONS. Each step's answer is one JSON line on standard output; steps take the
connections in turn. After the line of a step aside it waits for a line of standard input.
"""

import json
import queue
import sys
from pathlib import Path
from typing import Any

import grpc

from greenroom.pb.etcd import lock_pb2, lock_pb2_grpc, rpc_pb2, rpc_pb2_grpc
from tests.support.plan_calls import METHODS, SERVICE, Memory, answered, failed, request_of

CALL_SECONDS = 30
OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    # Else all channels of the process share one connection.
    ("grpc.use_local_subchannel_pool", 1),
)


class Stream:
    """A bidirectional stream that is written to and read from in turn."""

    def __init__(self, call: Any) -> None:
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.answers = call(iter(self._requests.get, None))

    def ask(self, request: Any) -> Any:
        self._requests.put(request)
        return next(self.answers)

    def end(self) -> None:
        self.answers.cancel()
        self._requests.put(None)


class Connection:
    def __init__(self, address: str, memory: Memory) -> None:
        self.memory = memory
        self.channel = grpc.insecure_channel(address, options=OPTIONS)
        self.methods = {
            name: self.channel.unary_unary(
                SERVICE + path,
                request_serializer=request.SerializeToString,
                response_deserializer=response.FromString,
            )
            for name, (path, request, response) in METHODS.items()
        }
        self.watcher = rpc_pb2_grpc.WatchStub(self.channel)
        self.locker = lock_pb2_grpc.LockStub(self.channel)
        self.keepalives = Stream(rpc_pb2_grpc.LeaseStub(self.channel).LeaseKeepAlive)

    def call(self, step: dict[str, Any]) -> dict[str, Any]:
        request = request_of(step, self.memory)
        answer = self.methods[step["do"]](request, timeout=CALL_SECONDS)
        self.memory.take(step, answer)
        return answered(answer)


class Client:
    def __init__(self, address: str, connections: int) -> None:
        self.memory = Memory()
        self.connections = [Connection(address, self.memory) for _ in range(connections)]
        self.watches: dict[str, Stream] = {}
        self.locks: dict[str, bytes] = {}

    def step(self, number: int, step: dict[str, Any]) -> dict[str, Any]:
        connection = self.connections[number % len(self.connections)]
        try:
            if special := getattr(self, f"_{step['do']}", None):
                return special(connection, step)
            return connection.call(step)
        except grpc.RpcError as error:
            return failed(error)

    def _aside(self, connection: Connection, step: dict[str, Any]) -> dict[str, Any]:
        return {"aside": step}

    def _keepalive(self, connection: Connection, step: dict[str, Any]) -> dict[str, Any]:
        return answered(connection.keepalives.ask(request_of(step, self.memory)))

    def _watch(self, connection: Connection, step: dict[str, Any]) -> dict[str, Any]:
        stream = self.watches[step["name"]] = Stream(connection.watcher.Watch)
        return answered(stream.ask(request_of(step, self.memory)))

    def _events(self, connection: Connection, step: dict[str, Any]) -> dict[str, Any]:
        last = step["key"].encode("latin-1"), step["value"].encode("latin-1")
        seen: list[Any] = []
        for response in self.watches[step["name"]].answers:
            seen += [answered(event)["answer"] for event in response.events]
            assert response.header.revision >= max(event.kv.mod_revision for event in response.events)
            if any((event.kv.key, event.kv.value) == last for event in response.events):
                return {"events": seen}
        raise AssertionError("the watch ended")

    def _canceled(self, connection: Connection, step: dict[str, Any]) -> dict[str, Any]:
        for response in self.watches.pop(step["name"]).answers:
            if response.canceled:
                return answered(response)
        raise AssertionError("the watch ended")

    def _unwatch(self, connection: Connection, step: dict[str, Any]) -> dict[str, Any]:
        self.watches.pop(step["name"]).end()
        return {}

    def _lock(self, connection: Connection, step: dict[str, Any]) -> dict[str, Any]:
        lease = connection.methods["grant"](rpc_pb2.LeaseGrantRequest(TTL=60), timeout=CALL_SECONDS).ID
        request = lock_pb2.LockRequest(name=step["name"].encode(), lease=lease)
        answer = connection.locker.Lock(request, timeout=CALL_SECONDS)
        self.locks[step["name"]] = answer.key
        return {**answered(answer), "lease": str(lease)}

    def _unlock(self, connection: Connection, step: dict[str, Any]) -> dict[str, Any]:
        request = lock_pb2.UnlockRequest(key=self.locks.pop(step["name"]))
        return answered(connection.locker.Unlock(request, timeout=CALL_SECONDS))


def main() -> None:
    address, plan, connections = sys.argv[1:]
    client = Client(address, int(connections))
    for number, step in enumerate(json.loads(Path(plan).read_text())):
        print(json.dumps(client.step(number, step)), flush=True)
        if step["do"] == "aside":
            sys.stdin.readline()


if __name__ == "__main__":
    main()

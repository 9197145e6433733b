"""Runs a plan on grpc.aio: the steps of one lane one after the other, all lanes at once, on one connection.

Usage: at_once.py ADDRESS PLAN. Each step's answer is one JSON line on standard output, with its lane. After the line of
a step aside the lane waits until its number comes back on standard input.
"""

import asyncio
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import grpc

from greenroom.pb.etcd import lock_pb2, lock_pb2_grpc, rpc_pb2, rpc_pb2_grpc
from tests.support.plan_calls import METHODS, SERVICE, Memory, answered, failed, request_of

CALL_SECONDS = 60
OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0))


class Lane:
    """One sequence of steps, with a memory of its own."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.memory = Memory()
        self.methods = {
            name: channel.unary_unary(
                SERVICE + path,
                request_serializer=request.SerializeToString,
                response_deserializer=response.FromString,
            )
            for name, (path, request, response) in METHODS.items()
        }
        self.watcher = rpc_pb2_grpc.WatchStub(channel)
        self.leases = rpc_pb2_grpc.LeaseStub(channel)
        self.locker = lock_pb2_grpc.LockStub(channel)
        self.keepalives: Any = None
        self.watches: dict[str, Any] = {}
        self.locks: dict[str, bytes] = {}

    async def step(self, step: dict[str, Any]) -> dict[str, Any]:
        try:
            if special := getattr(self, f"_{step['do']}", None):
                return await special(step)
            answer = await self.methods[step["do"]](request_of(step, self.memory), timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            return failed(error)
        self.memory.take(step, answer)
        return answered(answer)

    def end(self) -> None:
        for stream in (self.keepalives, *self.watches.values()):
            if stream is not None:
                stream.cancel()

    async def _storm(self, step: dict[str, Any]) -> dict[str, Any]:
        """All at once with too short a deadline, or let go of at once or a moment later: no matter what comes of it,
        as long as it is nothing else.
        """
        calls = [
            self.methods[one["do"]](request_of(one, self.memory), timeout=step["timeout"]) for one in step["steps"]
        ]
        watches = [self.watcher.Watch(timeout=step["timeout"]) for _ in range(step["watches"])]
        for number, call in enumerate((*calls, *watches) if step["cancel"] else ()):
            if number % 3 == 0:
                await asyncio.sleep(0)
            call.cancel()
        outcomes = {(await call.code(), await call.details()) for call in calls}
        for watch in watches:
            watch.cancel()
        return {"unexpected": sorted(f"{code.name}: {text}" for code, text in outcomes if not is_given_up(code, text))}

    async def _aside(self, step: dict[str, Any]) -> dict[str, Any]:
        return {"aside": step}

    async def _keepalive(self, step: dict[str, Any]) -> dict[str, Any]:
        if self.keepalives is None:
            self.keepalives = self.leases.LeaseKeepAlive()
        await self.keepalives.write(request_of(step, self.memory))
        return answered(await self.keepalives.read())

    async def _watch(self, step: dict[str, Any]) -> dict[str, Any]:
        stream = self.watches[step["name"]] = self.watcher.Watch()
        await stream.write(request_of(step, self.memory))
        return answered(await stream.read())

    async def _events(self, step: dict[str, Any]) -> dict[str, Any]:
        last = step["key"].encode("latin-1"), step["value"].encode("latin-1")
        seen: list[Any] = []
        while True:
            response = await self.watches[step["name"]].read()
            seen += [answered(event)["answer"] for event in response.events]
            assert response.header.revision >= max(event.kv.mod_revision for event in response.events)
            if any((event.kv.key, event.kv.value) == last for event in response.events):
                return {"events": seen}

    async def _canceled(self, step: dict[str, Any]) -> dict[str, Any]:
        stream = self.watches.pop(step["name"])
        while not (response := await stream.read()).canceled:
            pass
        stream.cancel()
        return answered(response)

    async def _unwatch(self, step: dict[str, Any]) -> dict[str, Any]:
        self.watches.pop(step["name"]).cancel()
        return {}

    async def _lock(self, step: dict[str, Any]) -> dict[str, Any]:
        granted = await self.methods["grant"](rpc_pb2.LeaseGrantRequest(TTL=60), timeout=CALL_SECONDS)
        request = lock_pb2.LockRequest(name=step["name"].encode(), lease=granted.ID)
        answer = await self.locker.Lock(request, timeout=CALL_SECONDS)
        self.locks[step["name"]] = answer.key
        return {**answered(answer), "lease": str(granted.ID)}

    async def _unlock(self, step: dict[str, Any]) -> dict[str, Any]:
        request = lock_pb2.UnlockRequest(key=self.locks.pop(step["name"]))
        return answered(await self.locker.Unlock(request, timeout=CALL_SECONDS))


def is_given_up(code: grpc.StatusCode, text: str) -> bool:
    """Whether a call ended in time, or as one that was given up; etcd may see that first, and has words of its own."""
    ends = (grpc.StatusCode.OK, grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED)
    return code in ends or text.startswith(("context ", "etcdserver: request timed out"))


async def run(number: int, lane: Lane, steps: list[dict[str, Any]], go_on: "dict[int, asyncio.Semaphore]") -> None:
    for step in steps:
        print(json.dumps({"lane": number, **await lane.step(step)}), flush=True)
        if step["do"] == "aside":
            await go_on[number].acquire()
    lane.end()


async def read_input(go_on: "dict[int, asyncio.Semaphore]") -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        go_on[int(line)].release()


async def main(address: str, steps: list[dict[str, Any]]) -> None:
    lanes: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for step in steps:
        lanes[step["lane"]].append(step)
    go_on = {number: asyncio.Semaphore(0) for number in lanes}
    listening = asyncio.create_task(read_input(go_on))
    async with grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
        await asyncio.gather(*(run(number, Lane(channel), steps, go_on) for number, steps in lanes.items()))
    listening.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text())))

"""Runs a plan on etcd-client-py, in its own environment: the Rust client that Dynamo's runtime is built on, and tonic.

Usage: scenario.py ADDRESS PLAN. Each step's answer is one JSON line on standard output. After the line of a step aside
it waits for a line of standard input. Of a Txn it shows the whole answer, as Rust prints it, which is parsed here.
"""

import asyncio
import base64
import json
import re
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import etcd_client
from etcd_client import Compare, CompareOp, TxnOp

WAIT_SECONDS = 30
KEY_VALUE = re.compile(
    r"KeyValue \{ key: (\[[\d, ]*\]), create_revision: (\d+), mod_revision: (\d+), "
    r"version: (\d+), value: (\[[\d, ]*\]), lease: (-?\d+) \}"
)
HEADER = re.compile(r"ResponseHeader \{ cluster_id: (\d+), member_id: (\d+), revision: (\d+), raft_term: (\d+) \}")
HEADER_NAMES = ("cluster_id", "member_id", "revision", "raft_term")
OPERATORS = {
    "EQUAL": CompareOp.EQUAL,
    "NOT_EQUAL": CompareOp.NOT_EQUAL,
    "GREATER": CompareOp.GREATER,
    "LESS": CompareOp.LESS,
}


class Runner:
    def __init__(self, client, communicator):
        self.client, self.etcd = client, communicator
        self.shown, self.watches, self.locks = {}, {}, {}

    async def step(self, step):
        try:
            return {"answer": await asyncio.wait_for(getattr(self, step["do"])(step), WAIT_SECONDS)}
        except etcd_client.GRPCStatusError as error:
            (status,) = error.args
            return {"error": [status["code"], status["message"], bytes(status["details"]).hex()]}
        except etcd_client.ClientError as error:
            return {"error": [type(error).__name__, str(error)]}

    async def put(self, step):
        await self.etcd.put(data(step["key"]), data(step["value"]))

    async def range(self, step):
        key = data(step["key"])
        if not step["range_end"]:
            return in_base64(await self.etcd.get(key))
        if step["options"]:
            return [in_base64(found) for found in await self.etcd.keys_prefix(key)]
        return [[in_base64(found), in_base64(value)] for found, value in await self.etcd.get_prefix(key)]

    async def delete(self, step):
        await (self.etcd.delete_prefix if step["range_end"] else self.etcd.delete)(data(step["key"]))

    async def txn(self, step):
        return self.parsed(str(await self.etcd.txn(self.transaction(step))))

    async def revoke(self, step):
        await self.etcd.lease_revoke(int(step["lease"]))

    async def keepalive(self, step):
        await self.etcd.lease_keep_alive(int(step["lease"]))

    async def time_to_live(self, step):
        await self.etcd.lease_time_to_live(int(step["lease"]))

    async def watch(self, step):
        ready, seen = etcd_client.CondVar(), asyncio.Queue()
        watching = self.etcd.watch_prefix(data(step["key"]), ready_event=ready)

        async def read():
            async for event in watching:
                await seen.put(event)

        self.watches[step["name"]] = asyncio.create_task(read()), seen
        await ready.wait()

    async def events(self, step):
        told, last = [], (data(step["key"]), data(step["value"]))
        _, seen = self.watches[step["name"]]
        while True:
            event = await seen.get()
            told.append([str(event.event), *map(in_base64, (event.key, event.value, event.prev_value))])
            if (event.key, event.value) == last:
                return told

    async def unwatch(self, step):
        self.watches.pop(step["name"])[0].cancel()

    async def lock(self, step):
        stack = self.locks[step["name"]] = AsyncExitStack()
        option = etcd_client.EtcdLockOption(lock_name=step["name"].encode(), ttl=60)
        await stack.enter_async_context(self.client.with_lock(option))

    async def unlock(self, step):
        await self.locks.pop(step["name"]).aclose()

    # ---- Txns -------------------------------------------------------------------------------------------------------

    def transaction(self, step):
        return (
            etcd_client.Txn()
            .when([self.comparison(compare) for compare in step["compare"]])
            .and_then([self.operation(part) for part in step["success"]])
            .or_else([self.operation(part) for part in step["failure"]])
        )

    def comparison(self, compare):
        kinds = {
            "VERSION": Compare.version,
            "MOD": Compare.mod_revision,
            "CREATE": Compare.create_revision,
            "VALUE": Compare.value,
            "LEASE": Compare.lease,
        }
        value = compare["value"]
        given = data(value) if compare["target"] == "VALUE" else self.number(value)
        made = kinds[compare["target"]](data(compare["key"]), OPERATORS[compare["result"]], given)
        return made.with_range(data(compare["range_end"])) if compare["range_end"] else made

    def operation(self, step):
        match step["do"]:
            case "put":
                return TxnOp.put(data(step["key"]), data(step["value"]))
            case "range":
                return TxnOp.get(data(step["key"]))
            case "delete":
                return TxnOp.delete(data(step["key"]))
        return TxnOp.txn(self.transaction(step))

    def parsed(self, text):
        """Rust's own print of an answer: what is to be renumbered apart, the rest word by word."""
        kvs = [
            {
                "key": in_base64(listed(key)),
                "value": in_base64(listed(value)),
                "create_revision": int(created),
                "mod_revision": int(changed),
                "version": int(version),
                "lease": int(lease),
            }
            for key, created, changed, version, value, lease in KEY_VALUE.findall(text)
        ]
        for kv in kvs:
            self.shown[base64.b64decode(kv["key"]).decode("latin-1")] = kv["create_revision"], kv["mod_revision"]
        headers = [dict(zip(HEADER_NAMES, map(int, found), strict=True)) for found in HEADER.findall(text)]
        return {"headers": headers, "kvs": kvs, "rest": HEADER.sub("header", KEY_VALUE.sub("kv", text))}

    def number(self, given):
        if not isinstance(given, dict):
            return int(given)
        ((name, key),) = given.items()
        return self.shown.get(key, (0, 0))[name == "shown_mod"]


def listed(numbers):
    return bytes(json.loads(numbers))


def in_base64(value):
    return None if value is None else base64.b64encode(bytes(value)).decode()


def data(text):
    return text.encode("latin-1")


async def main(address, steps):
    client = etcd_client.Client([f"http://{address}"])
    async with client.connect() as communicator:
        runner = Runner(client, communicator)
        for step in steps:
            line = {"aside": step} if step["do"] == "aside" else await runner.step(step)
            print(json.dumps(line), flush=True)
            if step["do"] == "aside":
                await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text())))

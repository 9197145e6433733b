"""Runs a plan on aetcd, in that client's own environment: its own protos, its own ways, on grpc.aio.

Usage: scenario.py ADDRESS PLAN. Each step's answer is one JSON line on standard output. After the line of a step aside
it waits for a line of standard input. What its methods have no option for goes through its own stubs.
"""

import asyncio
import base64
import json
import sys
from pathlib import Path

import aetcd
from aetcd import rpc
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

WAIT_SECONDS = 30
CLIENT_OPTIONS = {"grpc.max_receive_message_length": -1, "grpc.enable_http_proxy": 0}


class Runner:
    def __init__(self, client):
        self.client = client
        self.shown, self.kept, self.watches, self.locks = {}, {}, {}, {}

    async def step(self, step):
        try:
            answer = await getattr(self, step["do"])(step)
        except aetcd.RevisionCompactedError as error:
            return {"error": "compacted", "compact_revision": error.compacted_revision}
        except aetcd.ClientError as error:
            return {"error": [type(error).__name__, str(error)]}
        line = {"answer": plain(answer)}
        self.take(step, line["answer"])
        return line

    async def aside(self, step):
        return None

    async def put(self, step):
        options = {name: self.number(value) for name, value in step["options"].items()}
        if set(options) <= {"prev_kv"}:
            return await self.client.put(data(step["key"]), data(step["value"]), int(step["lease"]), **options)
        return await self.call(self.client.kvstub.Put, self.put_request(step))

    async def range(self, step):
        key, end, options = data(step["key"]), data(step["range_end"]), step["options"]
        if not end and set(options) <= {"serializable"}:
            return await self.client.get(key, **options)
        if set(options) <= {"sort_order", "sort_target"} and end:
            return await self.client.get_range(key, end, **{name: value.lower() for name, value in options.items()})
        if set(options) <= {"keys_only"} and end == key[:-1] + bytes([(key[-1] + 1) % 256]):
            return await self.client.get_prefix(key, **options)
        return await self.call(self.client.kvstub.Range, self.range_request(step))

    async def delete(self, step):
        key, end = data(step["key"]), data(step["range_end"])
        return await (self.client.delete_range(key, end, **step["options"]) if end
                      else self.client.delete(key, **step["options"]))  # fmt: skip

    async def txn(self, step):
        if not self.says(step):
            return await self.call(self.client.kvstub.Txn, self.txn_request(step))
        compares, success, failure = self.parts(step)
        succeeded, responses = await self.client.transaction(compares, success, failure)
        return {"succeeded": succeeded, "responses": responses}

    async def grant(self, step):
        lease = await self.client.lease(step["ttl"], int(step["lease"]))
        return {"ID": str(lease.id), "ttl": lease.ttl}

    async def revoke(self, step):
        return await self.client.revoke_lease(int(step["lease"]))

    async def keepalive(self, step):
        return await self.client.refresh_lease(int(step["lease"]))

    async def time_to_live(self, step):
        return await self.client.get_lease_info(int(step["lease"]))

    async def compact(self, step):
        return await self.client.compact(self.number(step["options"]["revision"]))

    async def watch(self, step):
        options = {name: self.number(value) for name, value in step["options"].items()}
        watch = await self.client.watch(data(step["key"]), data(step["range_end"]), **options)
        self.watches[step["name"]] = watch, aiter(watch)
        return {}

    async def events(self, step):
        seen, last = [], (data(step["key"]), data(step["value"]))
        _, events = self.watches[step["name"]]
        while True:
            event = await asyncio.wait_for(anext(events), WAIT_SECONDS)
            seen.append(event)
            if (event.kv.key, event.kv.value) == last:
                return seen

    async def canceled(self, step):
        _, events = self.watches.pop(step["name"])
        return await asyncio.wait_for(anext(events), WAIT_SECONDS)

    async def unwatch(self, step):
        await self.watches.pop(step["name"])[0].cancel()

    async def lock(self, step):
        lock = self.locks[step["name"]] = self.client.lock(step["name"].encode(), ttl=60)
        return {"acquired": await lock.acquire(), "held": await lock.is_acquired()}

    async def unlock(self, step):
        return {"released": await self.locks.pop(step["name"]).release()}

    # ---- what its own methods cannot say ----------------------------------------------------------------------------

    async def call(self, method, request):
        try:
            return await method(request, timeout=WAIT_SECONDS)
        except rpc.AioRpcError as error:
            raise aetcd.ClientError(error.code().name, error.details()) from error

    def says(self, step):
        """Whether its transactions have what the step asks for."""
        operations = [*step["success"], *step["failure"]]
        return all(compare["target"] != "LEASE" for compare in step["compare"]) and all(
            self.says(part) if part["do"] == "txn" else set(part["options"]) <= {"prev_kv"} - {part["do"] == "range"}
            for part in operations
        )

    def parts(self, step):
        return (
            [self.comparison(compare) for compare in step["compare"]],
            [self.part(part) for part in step["success"]],
            [self.part(part) for part in step["failure"]],
        )

    def comparison(self, compare):
        kinds = self.client.transactions
        kind = {"VERSION": kinds.version, "MOD": kinds.mod, "CREATE": kinds.create, "VALUE": kinds.value}
        left = kind[compare["target"]](data(compare["key"]), data(compare["range_end"]) or None)
        value = compare["value"]
        right = data(value) if compare["target"] == "VALUE" else self.number(value)
        match compare["result"]:
            case "EQUAL":
                return left == right
            case "NOT_EQUAL":
                return left != right
            case "LESS":
                return left < right
        return left > right

    def part(self, step):
        kinds, options = self.client.transactions, step.get("options", {})
        match step["do"]:
            case "put":
                return kinds.put(data(step["key"]), data(step["value"]), int(step["lease"]), **options)
            case "range":
                return kinds.get(data(step["key"]), data(step["range_end"]) or None)
            case "delete":
                return kinds.delete(data(step["key"]), data(step["range_end"]) or None, **options)
        return kinds.txn(*self.parts(step))

    def put_request(self, step):
        return rpc.PutRequest(
            key=data(step["key"]), value=data(step["value"]), lease=int(step["lease"]), **step["options"]
        )

    def range_request(self, step):
        options = {name: self.number(value) for name, value in step["options"].items()}
        return rpc.RangeRequest(key=data(step["key"]), range_end=data(step["range_end"]), **options)

    def txn_request(self, step):
        return rpc.TxnRequest(
            compare=[self.compare_request(compare) for compare in step["compare"]],
            success=[self.operation_request(part) for part in step["success"]],
            failure=[self.operation_request(part) for part in step["failure"]],
        )

    def compare_request(self, compare):
        names = {"VERSION": "version", "MOD": "mod_revision", "CREATE": "create_revision", "VALUE": "value"}
        request = rpc.Compare(
            key=data(compare["key"]),
            range_end=data(compare["range_end"]),
            target=compare["target"],
            result=compare["result"],
        )
        name, value = names.get(compare["target"], "lease"), compare["value"]
        setattr(request, name, data(value) if name == "value" else self.number(value))
        return request

    def operation_request(self, step):
        match step["do"]:
            case "put":
                return rpc.RequestOp(request_put=self.put_request(step))
            case "range":
                return rpc.RequestOp(request_range=self.range_request(step))
            case "delete":
                request = rpc.DeleteRangeRequest(
                    key=data(step["key"]), range_end=data(step["range_end"]), **step["options"]
                )
                return rpc.RequestOp(request_delete_range=request)
        return rpc.RequestOp(request_txn=self.txn_request(step))

    # ---- what is only known now -------------------------------------------------------------------------------------

    def number(self, given):
        if not isinstance(given, dict):
            return int(given) if isinstance(given, str) and given.isdigit() else given
        if "kept" in given:
            return self.kept.get(given["kept"], 0) + given["plus"]
        ((name, key),) = given.items()
        return self.shown.get(key, {}).get({"shown_mod": "mod_revision", "shown_create": "create_revision"}[name], 0)

    def take(self, step, answer):
        if "keep" in step:
            self.kept[step["keep"]] = int(answer["header"]["revision"])
        for kv in kvs(answer):
            self.shown[base64.b64decode(kv["key"]).decode("latin-1")] = {
                name: int(kv[name]) for name in ("mod_revision", "create_revision")
            }


def kvs(node):
    if isinstance(node, dict) and int(node.get("mod_revision", 0)):
        yield node
    elif isinstance(node, (dict, list)):
        for part in node.values() if isinstance(node, dict) else node:
            yield from kvs(part)


def plain(node):
    """Anything that aetcd answers with, as JSON; bytes in base64."""
    if isinstance(node, Message):
        return MessageToDict(node, preserving_proto_field_name=True)
    if isinstance(node, bytes):
        return base64.b64encode(node).decode()
    if type(node).__module__.startswith("aetcd"):
        names = getattr(node, "__slots__", None) or list(node.__dict__)
        return {name: plain(getattr(node, name)) for name in names}
    if isinstance(node, dict):
        return {name: plain(part) for name, part in node.items()}
    # A repeated field of a message has no __iter__ to look for.
    return node if node is None or isinstance(node, (str, int)) else [plain(part) for part in node]


def data(text):
    return text.encode("latin-1")


async def main(address, steps):
    host, _, port = address.partition(":")
    async with aetcd.Client(host, int(port), timeout=WAIT_SECONDS, options=CLIENT_OPTIONS) as client:
        runner = Runner(client)
        for step in steps:
            line = {"aside": step} if step["do"] == "aside" else await runner.step(step)
            print(json.dumps(line), flush=True)
            if step["do"] == "aside":
                await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text())))

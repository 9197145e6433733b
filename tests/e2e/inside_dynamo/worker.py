"""A Dynamo worker that does what it is told, one line at a time, so that a test decides when it registers what.

Rule: runs in Dynamo's own environment, so it imports nothing of this project. Commands come on standard input, one a
line; each gets one JSON line on the file descriptor given as `--replies`: `{"ok": true, "result": "..."}`, or
`{"ok": false, "result": "<error text>"}`. The end of standard input ends the process, so a dead test leaves no worker.

    serve                       answer requests on the endpoint, and register the instance
    register [MODEL]            register a model (default: `--model-name`) under the endpoint's card key
    register_lora NAME          register a LoRA adapter of the model
    unregister [LORA]           remove the model's card, or the adapter's
    taints A,B                  set the card's taints (none: `taints`)
    id                          the lease id in hex
    plain ENDPOINT              the instances that a plain client of an endpoint has, by their ids in hex
    shutdown                    stop gracefully
"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from typing import Any

import uvloop
from dynamo.llm import (
    ModelInput,
    ModelRuntimeConfig,
    ModelType,
    WorkerType,
    register_model,
    unregister_model,
    update_model_taints,
)
from dynamo.runtime import DistributedRuntime
from dynamo.runtime.logging import configure_dynamo_logging

BLOCK_SIZE = 64


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-path", required=True)
    parser.add_argument("--model-name", required=True)
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--replies", type=int, required=True)
    return parser.parse_args()


async def generate(request: dict[str, Any], context: Any = None) -> AsyncIterator[dict[str, Any]]:
    """Four tokens, whatever the prompt."""
    for token in (800, 801, 802):
        yield {"token_ids": [token]}
    yield {"token_ids": [803], "finish_reason": "length"}


class Worker:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.runtime = DistributedRuntime(asyncio.get_running_loop(), "etcd", "tcp", event_plane="zmq")
        self.endpoint = self.runtime.endpoint(options.endpoint.removeprefix("dyn://"))
        self.serving: asyncio.Task[None] | None = None
        self.clients: dict[str, Any] = {}

    async def run(self, command: str, argument: str) -> str:
        result = await getattr(self, f"do_{command}")(argument)
        return "" if result is None else str(result)

    async def do_serve(self, _: str) -> str:
        # serve_endpoint returns only at shutdown; the test waits for the instance key in etcd instead.
        self.serving = asyncio.ensure_future(self.endpoint.serve_endpoint(generate, graceful_shutdown=True))
        return "starting"

    async def do_register(self, name: str) -> None:
        runtime_config = ModelRuntimeConfig()
        runtime_config.total_kv_blocks = 512
        await self._register(model_name=name or self.options.model_name, runtime_config=runtime_config)

    async def do_register_lora(self, name: str) -> None:
        await self._register(lora_name=name, base_model_path=self.options.model_path)

    async def _register(self, **more: Any) -> None:
        await register_model(
            ModelInput.Tokens,
            ModelType.Chat | ModelType.Completions,
            self.endpoint,
            self.options.model_path,
            worker_type=WorkerType.Aggregated,
            kv_cache_block_size=BLOCK_SIZE,
            **more,
        )

    async def do_unregister(self, lora: str) -> None:
        await unregister_model(self.endpoint, lora or None)

    async def do_taints(self, names: str) -> None:
        await update_model_taints(self.endpoint, set(filter(None, names.split(","))))

    async def do_id(self, _: str) -> str:
        return f"{self.endpoint.connection_id():x}"

    async def do_plain(self, endpoint: str) -> str:
        if endpoint not in self.clients:
            self.clients[endpoint] = await self.runtime.endpoint(endpoint).client()
        return " ".join(f"{instance:x}" for instance in self.clients[endpoint].instance_ids())

    async def do_shutdown(self, _: str) -> None:
        self.runtime.shutdown()
        if self.serving is not None:
            await self.serving


async def commands() -> AsyncIterator[tuple[str, str]]:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        command, _, argument = line.decode().strip().partition(" ")
        yield command, argument


async def main() -> None:
    options = arguments()
    worker = Worker(options)
    with os.fdopen(options.replies, "w", buffering=1) as replies:
        async for command, argument in commands():
            try:
                reply = {"ok": True, "result": await worker.run(command, argument)}
            except Exception as error:
                # The bindings raise bare Exception; the test wants its text.
                reply = {"ok": False, "result": f"{type(error).__name__}: {error}"}
            print("command", command, argument, reply, flush=True)
            replies.write(json.dumps(reply) + "\n")


if __name__ == "__main__":
    configure_dynamo_logging()
    uvloop.run(main())

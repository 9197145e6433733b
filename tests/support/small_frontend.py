"""A frontend as small as one can be: a client of etcd that lists over HTTP the models whose cards it sees there.

    python -m tests.support.small_frontend PORT ETCD_URL FILE

Each line of FILE is the process id of one that began.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import grpc

from greenroom.pb.etcd import rpc_pb2, rpc_pb2_grpc

CARDS, CARDS_END = b"v1/mdc/", b"v1/mdc0"


def models(url: str) -> list[str]:
    """The names in the cards that are to be seen."""
    with grpc.insecure_channel(url.removeprefix("http://"), options=(("grpc.enable_http_proxy", 0),)) as channel:
        found = rpc_pb2_grpc.KVStub(channel).Range(rpc_pb2.RangeRequest(key=CARDS, range_end=CARDS_END), timeout=5)
    return [json.loads(entry.value)["card_json"]["display_name"] for entry in found.kvs]


def main(port: str, url: str, file: str) -> None:
    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"data": [{"id": name} for name in models(url)]}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with Path(file).open("a") as begun:
        begun.write(f"{os.getpid()}\n")
    ThreadingHTTPServer(("127.0.0.1", int(port)), Pages).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])

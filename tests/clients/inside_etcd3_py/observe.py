"""Runs in etcd3-py's own environment: prints what that client sees on etcd's JSON port, one JSON object a line.

Usage: observe.py PORT START_REVISION (0 is from now on). It watches the whole keyspace. Each line of standard input
asks for a range: `KEY_HEX RANGE_END_HEX`, where an empty second word is the one key. Keys and values come out as hex.
"""

import json
import sys
import threading

import etcd3

_output = threading.Lock()


def main() -> None:
    client = etcd3.Client("127.0.0.1", int(sys.argv[1]))
    threading.Thread(target=watch, args=(client, int(sys.argv[2])), daemon=True).start()
    for line in sys.stdin:
        key, _, range_end = line.rstrip("\n").partition(" ")
        say(asked(client, key, range_end))


def watch(client: etcd3.Client, start_revision: int) -> None:
    # A key and a range end of one zero byte each: everything.
    answers = client.watch_create(key=b"\0", range_end=b"\0", start_revision=start_revision or None)
    for answer in answers:
        revision = answer.header.revision
        if answer._data.get("created"):
            say({"created": revision})
        for event in answer._data.get("events", []):
            # The gateway leaves out what is zero, and PUT is the zero of the kinds.
            kind = event.get("type", "PUT")
            say({"event": getattr(kind, "value", kind), "revision": revision, **entry(event["kv"])})


def asked(client: etcd3.Client, key: str, range_end: str) -> dict:
    answer = client.range(bytes.fromhex(key), range_end=bytes.fromhex(range_end) or None)._data
    return {"range": [entry(kv) for kv in answer.get("kvs", [])], "revision": answer["header"]["revision"]}


def entry(kv: dict) -> dict:
    return {
        "key": kv["key"].hex(),
        "value": kv.get("value", b"").hex(),
        "lease": kv.get("lease", 0),
        "create_revision": kv.get("create_revision", 0),
        "mod_revision": kv.get("mod_revision", 0),
        "version": kv.get("version", 0),
    }


def say(line: dict) -> None:
    with _output:
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()

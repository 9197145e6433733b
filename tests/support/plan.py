"""The words of a plan: what a client of any language is to call, one step after the other, as plain JSON.

The rule: a step says everything but what only the run knows, and for that it names where to find it: the revision that
an answer showed of a key, or that a step kept under a name. Bytes are text of one character a byte, numbers that
JavaScript cannot count up to are text too.
"""

from typing import Any

Step = dict[str, Any]
Number = int | dict[str, Any]
"""A number, or where the client finds it: `shown_mod`, `shown_create` (of a key, 0 where none was shown), `kept`."""

TO_END = "\0"
"""As a range end: every key from the start on."""


def text(data: bytes) -> str:
    return data.decode("latin-1")


def prefix_end(prefix: str) -> str:
    """The range end of all keys that start with `prefix`."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def shown_mod(key: str) -> Number:
    return {"shown_mod": key}


def shown_create(key: str) -> Number:
    return {"shown_create": key}


def kept(name: str, plus: int = 0) -> Number:
    """The revision of the answer to the step that kept it under `name`."""
    return {"kept": name, "plus": plus}


def put(key: str, value: str = "", lease: int = 0, **options: Any) -> Step:
    return {"do": "put", "key": key, "value": value, "lease": str(lease), "options": options}


def read(key: str, range_end: str = "", **options: Any) -> Step:
    return {"do": "range", "key": key, "range_end": range_end, "options": options}


def read_prefix(prefix: str, **options: Any) -> Step:
    return read(prefix, prefix_end(prefix), **options)


def delete(key: str, range_end: str = "", **options: Any) -> Step:
    return {"do": "delete", "key": key, "range_end": range_end, "options": options}


def compare(key: str, target: str, value: Any, result: str = "EQUAL", range_end: str = "") -> Step:
    """`target` is VERSION, CREATE, MOD, VALUE or LEASE, as etcd names them; `value` fits it."""
    return {"key": key, "target": target, "result": result, "value": value, "range_end": range_end}


def txn(compares: list[Step], success: list[Step], failure: list[Step] | None = None) -> Step:
    return {"do": "txn", "compare": compares, "success": success, "failure": failure or []}


def create(key: str, value: str, lease: int) -> Step:
    """The Txn by which Dynamo registers: put where absent, else read."""
    return txn([compare(key, "VERSION", 0)], [put(key, value, lease)], [read(key)])


def grant(lease: int, ttl_seconds: int = 600) -> Step:
    return {"do": "grant", "lease": str(lease), "ttl": ttl_seconds}


def of_lease(what: str, lease: int) -> Step:
    """`what` is revoke, keepalive or time_to_live (with the keys)."""
    return {"do": what, "lease": str(lease)}


def compact(revision: Number) -> Step:
    return {"do": "compact", "options": {"revision": revision}}


def watch(name: str, prefix: str, start_revision: Number = 0, **options: Any) -> Step:
    options["start_revision"] = start_revision
    return {"do": "watch", "name": name, "key": prefix, "range_end": prefix_end(prefix), "options": options}


def events(name: str, until: Step) -> Step:
    """All events of a watch up to the one that the put `until` makes."""
    return {"do": "events", "name": name, "key": until["key"], "value": until["value"]}


def unwatch(name: str) -> Step:
    return {"do": "unwatch", "name": name}


def canceled(name: str) -> Step:
    """Whatever a watch is told until etcd cancels it."""
    return {"do": "canceled", "name": name}


def lock(name: str) -> Step:
    return {"do": "lock", "name": name}


def unlock(name: str) -> Step:
    return {"do": "unlock", "name": name}


def aside(what: str, **details: Any) -> Step:
    """The client stops until the test has done something beside it, such as releasing an instance."""
    return {"do": "aside", "what": what, **details}

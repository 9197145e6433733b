"""The logs of one plan run twice, on etcd itself and through the proxy, compared answer by answer.

The rule: only what must differ between two stores is renumbered: ids of leases, members and clusters, and raft terms,
by first appearance; revisions by how far they are from the first, which is stricter. A lease's remaining seconds are a
clock's, and are held against those granted; its keys come in no order from etcd itself. Nothing else is left out.
Of calls made at once, each lane is a log of its own: there the revisions of what was written are ranked, and that of
an answer that wrote nothing must only not lie before any that the lane saw.
"""

import base64
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Line = dict[str, Any]
REVISIONS = frozenset({"revision", "create_revision", "mod_revision", "compact_revision"})
STORES = frozenset({"cluster_id", "member_id", "raft_term"})
LEASES = frozenset({"ID", "lease"})
BYTES = frozenset({"key", "value"})
SMALLEST_LEASE_ID = 1 << 32
LIKE_AN_ID = re.compile(r"[0-9a-f]{9,19}")
RUN_SECONDS = 120
"""A lease cannot have lost more of its time than a test has."""


SHOWN = 400
RUNS = "runs"


def assert_equal(steps: Sequence[Line], direct: Sequence[Line], proxied: Sequence[Line]) -> None:
    """Every step has its answer on both sides, and the same; AssertionError with the first step that has not."""
    assert (len(direct), len(proxied)) == (len(steps), len(steps)), "not every step was answered"
    _assert_same(steps, normalised(direct, _from_the_first(direct)), normalised(proxied, _from_the_first(proxied)))


def assert_equal_lanes(steps: Sequence[Line], direct: Sequence[Line], proxied: Sequence[Line]) -> None:
    """As `assert_equal`, for steps and lines that name their lane."""
    for number in {step["lane"] for step in steps}:
        mine, plain, ours = ([line for line in lines if line["lane"] == number] for lines in (steps, direct, proxied))
        assert (len(plain), len(ours)) == (len(mine), len(mine)), "not every step was answered"
        written, written_too = _only_written(mine, plain), _only_written(mine, ours)
        _assert_same(mine, normalised(written, _ranked(written)), normalised(written_too, _ranked(written_too)))


def _assert_same(steps: Sequence[Line], direct: Sequence[str], proxied: Sequence[str]) -> None:
    for number, (step, plain, ours) in enumerate(zip(steps, direct, proxied, strict=True)):
        if ours != plain:
            before = "\n".join(json.dumps(earlier)[:SHOWN] for earlier in steps[max(0, number - 5) : number])
            same = next((at for at, (a, b) in enumerate(zip(plain, ours, strict=False)) if a != b), 0)
            at = max(0, same - SHOWN // 2)
            raise AssertionError(
                f"step {number} is answered differently: {json.dumps(step)[:SHOWN]}\nfrom character {at} on\n"
                f"direct:  {plain[at : at + 2 * SHOWN]}\nproxied: {ours[at : at + 2 * SHOWN]}\n"
                f"the steps before it:\n{before}"
            )


def normalised(lines: Sequence[Line], revision: Callable[[int], str]) -> list[str]:
    """Each line as text that two stores have in common."""
    stores: dict[tuple[str, int], str] = {}

    def turned(name: str, value: Any) -> Any:
        if name in REVISIONS:
            return revision(int(value)) if int(value) else value
        if name in STORES:
            return stores.setdefault((name, int(value)), f"{name} {len(stores)}") if int(value) else value
        return _text(value) if name in BYTES else value

    renumber = _leases_renumbered(lines)
    return [renumber(json.dumps(_walked(line, turned), sort_keys=True)) for line in lines]


def _from_the_first(lines: Sequence[Line]) -> Callable[[int], str]:
    base = next(value for value in _revisions(lines))
    return lambda value: f"revision {value - base}"


def _ranked(lines: Sequence[Line]) -> Callable[[int], str]:
    ranks = {value: rank for rank, value in enumerate(sorted(set(_revisions(lines))))}
    return lambda value: f"revision of rank {ranks[value]}"


def _revisions(lines: Sequence[Line]) -> Iterator[int]:
    return (int(value) for _, value in _numbers(lines, REVISIONS) if int(value))


def _only_written(steps: Sequence[Line], lines: Sequence[Line]) -> list[Line]:
    """The lines without the revisions of answers that wrote nothing: others write between."""
    latest, left = 0, []
    for step, line in zip(steps, lines, strict=True):
        answer = line.get("answer", {})
        revision = int(answer.get("header", {}).get("revision", 0))
        assert revision >= latest or not revision, f"{step} is answered at {revision}, after {latest}"
        latest = max(latest, revision)
        left.append(_only_written_parts(line) if step["do"] == "put" or _wrote(answer) else _without_revisions(line))
    return left


def _only_written_parts(node: Any) -> Any:
    """A part of a Txn that writes nothing is answered at the revision before, while nothing else is written in it."""
    if isinstance(node, list):
        return [_only_written_parts(part) for part in node]
    if not isinstance(node, dict):
        return node
    return {
        name: _without_revisions(part)
        if name in ("response_range", "response_delete_range", "response_txn") and not _wrote(part)
        else _only_written_parts(part)
        for name, part in node.items()
    }


def _without_revisions(node: Any) -> Any:
    return _walked(node, lambda name, value: 0 if name == "revision" else value)


def _wrote(answer: Line) -> bool:
    parts = [next(iter(part.items())) for part in answer.get("responses", ())]
    return int(answer.get("deleted", 0)) > 0 or any(name == "response_put" or _wrote(part) for name, part in parts)


def _walked(node: Any, turned: Callable[[str, Any], Any]) -> Any:
    if isinstance(node, list):
        return [_walked(part, turned) for part in node]
    if not isinstance(node, dict):
        return node
    if "grantedTTL" in node and node["TTL"] != RUNS:
        node = {**node, **_lease_facts(node)}
    return {
        name: _walked(value, turned) if isinstance(value, (dict, list)) else turned(name, value)
        for name, value in node.items()
    }


def _lease_facts(answer: Line) -> Line:
    granted, left = int(answer["grantedTTL"]), int(answer["TTL"])
    assert granted - RUN_SECONDS <= left <= granted, f"{left} s are left of {granted}"
    return {"TTL": RUNS, "keys": sorted(_text(key) for key in answer.get("keys", []))}


def _leases_renumbered(lines: Sequence[Line]) -> Callable[[str], str]:
    """Ids stand in keys in hexadecimal and in values in decimal as well."""
    names: dict[str, str] = {}
    for _, value in _numbers(lines, LEASES):
        if int(value) >= SMALLEST_LEASE_ID:
            name = names.setdefault(str(int(value)), f"<lease {len(names) // 2}>")
            names.setdefault(f"{int(value):x}", name)
    return lambda text: LIKE_AN_ID.sub(lambda found: names.get(found[0], found[0]), text)


def _numbers(node: Any, wanted: frozenset[str]) -> Iterator[tuple[str, Any]]:
    if isinstance(node, (list, tuple)):
        for part in node:
            yield from _numbers(part, wanted)
    elif isinstance(node, dict):
        for name, value in node.items():
            if name in wanted and not isinstance(value, (dict, list)):
                yield name, value
            else:
                yield from _numbers(value, wanted)


def _text(data: str) -> str:
    return base64.b64decode(data).decode("latin-1")

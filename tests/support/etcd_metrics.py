"""What etcd counts by itself: the calls that it works on, the watches that it keeps, the messages that it was sent.

The rule: etcd's own figures, read anew for each question. They cannot be fooled by the proxy, nor by a client.
"""

import re
from collections import Counter
from collections.abc import Iterator

from tests.support.etcd import Etcd
from tests.support.http import ask

WATCHERS = "etcd_debugging_mvcc_watcher_total"
STARTED = "grpc_server_started_total"
HANDLED = "grpc_server_handled_total"
RECEIVED = "grpc_server_msg_received_total"
CLIENT_REQUESTS = "etcd_server_client_requests_total"

_SERIES = re.compile(r"(?P<name>[a-z_]+)(?:\{(?P<labels>.*)\})? (?P<value>[^ ]+)")
_LABEL = re.compile(r'([a-z_]+)="([^"]*)"')


def metric(etcd: Etcd, name: str, **labels: str) -> int:
    """The sum of all series of that name with these labels; 0 where there is none."""
    return sum(value for found, value in _series(etcd, name) if labels.items() <= found.items())


def open_calls(etcd: Etcd) -> Counter[str]:
    """How many calls of each method (`KV/Range`) were begun and not ended. Not those of this question."""
    found: Counter[str] = Counter()
    for labels, value in _series(etcd, STARTED):
        found[_method(labels)] += value
    for labels, value in _series(etcd, HANDLED):
        found[_method(labels)] -= value
    return +found


def _series(etcd: Etcd, name: str) -> Iterator[tuple[dict[str, str], int]]:
    answer = ask(f"{etcd.endpoint}/metrics")
    assert answer.status == 200, f"{etcd} gives no metrics: {answer}"
    for match in map(_SERIES.fullmatch, answer.body.decode().splitlines()):
        if match is not None and match["name"] == name:
            yield dict(_LABEL.findall(match["labels"] or "")), int(float(match["value"]))


def _method(labels: dict[str, str]) -> str:
    return f"{labels['grpc_service'].removeprefix('etcdserverpb.')}/{labels['grpc_method']}"

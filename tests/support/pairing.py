"""Workers before two proxies and their twins before a plain etcd, and the log of all that was done and seen.

The rule: nothing is compared before everything that came before it in etcd has been taken in, once and in order.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from greenroom.core.policy import Policy
from greenroom.pb.control.v1 import control_pb2
from greenroom.pb.etcd import kv_pb2, rpc_pb2
from tests.faults.racing.judge import Life, forgotten
from tests.faults.racing.log import RaceLog
from tests.faults.racing.words import Round
from tests.support.client import CALL_SECONDS, EtcdClient
from tests.support.control import Control
from tests.support.endpoints import wipe_beside_proxies
from tests.support.etcd import Etcd
from tests.support.greenroom import Greenroom
from tests.support.story import Deleted, LeaseEnded, Operation, Saw, Wrote
from tests.support.twin import Answer, Call, Twins, answer_of, has_written, paired, without_header


@dataclass(slots=True)
class Side:
    """One proxy and its clients; new ones after a restart, so that nothing waits for a connection to come back."""

    greenroom: Greenroom
    client: EtcdClient
    control: Control
    running: bool = True

    def kill(self) -> None:
        self.greenroom.kill()
        self.close()
        self.running = False

    def start(self) -> None:
        self.greenroom.start()
        self.client, self.control = EtcdClient(self.greenroom.address), Control(self.greenroom.control)
        for channel in (self.client.channel, self.control.channel):
            grpc.channel_ready_future(channel).result(CALL_SECONDS)
        self.running = True

    def close(self) -> None:
        self.client.close()
        self.control.channel.close()


@dataclass(slots=True)
class Subject:
    """A worker, its twin, and what both have read and what reporters have seen of it."""

    life: Life
    ended: bool = False
    read: dict[bytes, kv_pb2.KeyValue] = field(default_factory=dict)
    looks: list[control_pb2.Instance] = field(default_factory=list)

    @property
    def round(self) -> Round:
        return self.life.round

    @property
    def instance(self) -> str:
        return self.life.instance

    def said(self, operation: Operation) -> None:
        self.life.said.append(operation)

    def wrote(self, revision: int, request: rpc_pb2.PutRequest, *, kept_back: bool | None = None) -> None:
        """A put that took effect; it is kept back where a rule matches, unless told otherwise."""
        key, gates = request.key, self.round.gates_of(request.key)
        lora, card = key in self.round.lora_keys, self.round.is_card(key)
        kept = bool(gates) if kept_back is None else kept_back
        value = self.read[key].value if request.ignore_value else request.value
        self.said(Wrote(revision, self.instance, key, value, gates, kept, lora=lora, card=card))


@dataclass(slots=True)
class Stage:
    """What outlives an example: two etcds, and two proxies before the first."""

    etcd: Etcd
    plain: Etcd
    sides: list[Side]
    kills: int = 0
    states: Counter[str] = field(default_factory=Counter)


@contextmanager
def launched_stage(folder: Path, policy: Policy) -> Iterator[Stage]:
    """Everything running; it ends with the block."""
    path = folder / "policy.yaml"
    path.write_text(policy.model_dump_json(exclude_defaults=True))
    with Etcd.launch() as etcd, Etcd.launch() as plain, ExitStack() as stack:
        sides = []
        for name in ("one", "two"):
            greenroom = Greenroom(etcd.endpoint, folder, name=name, arguments=("--policy", str(path)))
            stack.enter_context(greenroom)
            sides.append(Side(greenroom, EtcdClient(greenroom.address), Control(greenroom.control)))
        stage = Stage(etcd, plain, sides)
        yield stage
        for side in stage.sides:
            side.close()


class Pairing:
    """From an empty etcd and an empty plain one."""

    def __init__(self, etcd: Etcd, plain: Etcd) -> None:
        wipe_beside_proxies(etcd)
        self.etcd, self.plain = etcd.client(), plain.client()
        self.plain.wipe()
        self.log, self.twins = RaceLog(), Twins(self.plain)
        self._watch = self.etcd.watch(start_revision=self.etcd.revision() + 1)
        self._taken = 0
        # From here on every revision is one of the watch's.
        self.etcd.put(b"other/start")

    def close(self) -> None:
        self._watch.close()
        self.etcd.close()
        self.plain.close()

    def catch_up(self) -> None:
        """Takes in all that is in etcd by now."""
        self._take_until(self.etcd.revision())

    def nobody_forgot(self, subject: Subject) -> bool:
        """Whether the worker is released by now, if it is ready."""
        self.catch_up()
        return not forgotten(subject.life, self.log)

    def start(self, subject: Subject, client: EtcdClient) -> None:
        """Lease by lease id: both sides name their keys alike."""
        client.grant(lease=subject.round.lease)
        self.plain.grant(lease=subject.round.lease)

    def serve_already(self, subject: Subject) -> None:
        """A card that was public before a proxy came."""
        key, lease = subject.round.card_key, subject.round.lease
        request = rpc_pb2.PutRequest(key=key, value=subject.round.value(key, "live", []), lease=lease)
        self.plain.kv.Put(request, timeout=CALL_SECONDS)
        answer = self.etcd.kv.Put(request, timeout=CALL_SECONDS)
        subject.wrote(answer.header.revision, request, kept_back=False)

    def both(self, subject: Subject, call: Call, client: EtcdClient) -> None:
        """The call through a proxy and the twin's on the plain etcd; the answers must not differ."""
        answer = answer_of(client, call)
        if isinstance(answer, tuple):
            self.catch_up()
            twins = answer_of(self.plain, self.twins.call(call))
            assert answer == twins, f"through the proxy: {answer}, on etcd: {twins}"
            return
        revision = answer.header.revision
        self._take_until(revision - has_written(call, answer))
        twins = answer_of(self.plain, self.twins.call(call))
        self._take_until(revision)
        assert not isinstance(twins, tuple), f"through the proxy: {answer}, on etcd: {twins}"
        assert self.twins.answer(answer) == without_header(twins)
        self._say(subject, call, answer)

    def end(self, subject: Subject, client: EtcdClient) -> None:
        """The lease is revoked on both sides."""
        lease = subject.round.lease
        self.catch_up()
        answer = client.lease.LeaseRevoke(rpc_pb2.LeaseRevokeRequest(ID=lease), timeout=CALL_SECONDS)
        self.plain.revoke(lease)
        subject.ended = True
        subject.said(LeaseEnded(answer.header.revision, subject.instance))

    def _take_until(self, revision: int) -> None:
        """Every event up to a revision goes to the log and to the twins."""
        events = self._watch.wait_revision(revision)
        while self._taken < len(events) and events[self._taken].kv.mod_revision <= revision:
            self.log.take(events[self._taken])
            self.twins.take(events[self._taken])
            self._taken += 1

    def _say(self, subject: Subject, call: Call, answer: Answer) -> None:
        """What came of a call, for the judge."""
        revision = answer.header.revision
        for done, said in paired(call, answer):
            if done.key == subject.round.other_key:  # type: ignore[union-attr]  # a Txn is taken apart already
                continue
            match done:
                case rpc_pb2.PutRequest():
                    subject.wrote(revision, done)
                case rpc_pb2.DeleteRangeRequest():
                    self._say_deleted(subject, done, said, revision)
                case rpc_pb2.RangeRequest(keys_only=False, count_only=False):
                    self._say_seen(subject, done.key, said, revision)

    def _say_deleted(self, subject: Subject, done: rpc_pb2.DeleteRangeRequest, said: Any, revision: int) -> None:
        keys = [kv.key for kv in said.prev_kvs] or [done.key]
        for key in keys if said.deleted else ():
            subject.said(Deleted(revision, subject.instance, key))

    def _say_seen(self, subject: Subject, key: bytes, said: Any, revision: int) -> None:
        found = next(iter(said.kvs), None)
        subject.said(Saw(revision, subject.instance, key, found.value if found else None))
        if found is not None:
            subject.read[key] = found

"""One client's life with etcd, thrown by dice of a known seed: workers held and released, and plain keys beside them.

The rule: the same plan is right on etcd itself and behind a proxy. So the gated prefix is only looked at as a whole
while none of the plan's own workers is held, and whatever is refused by design is not in it. All else is: wrong calls
too.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.support import plan
from tests.support.plan import Step
from tests.support.planned_worker import CARDS, PlannedWorker

PLAIN = ("app/", "v1/event_channels/", "bin/\xff\x00", "v1/mdd")
"""Prefixes of keys that nobody gates; the last lies just behind the gated ones."""
CHANNELS = "v1/event_channels/"
KEYS = 12
"""Under each of them."""
UNKNOWN_LEASE = 0x1234_5678_9ABC_DEF0
MADE_ASIDE = 0.25
TOO_MANY = 129
"""Operations of one Txn; etcd takes 128."""
RANGE_OPTIONS: tuple[dict[str, Any], ...] = (
    *({}, {}, {"keys_only": True}, {"count_only": True}, {"serializable": True}, {"limit": 2}, {"limit": 1}),
    *({"sort_order": "DESCEND", "sort_target": "MOD"}, {"sort_order": "ASCEND", "sort_target": "VALUE"}),
    *({"sort_order": "DESCEND", "sort_target": "KEY", "limit": 3}, {"sort_order": "ASCEND", "sort_target": "VERSION"}),
    *({"min_mod_revision": plan.kept("round")}, {"max_create_revision": plan.kept("round")}),
    *(
        {"revision": plan.kept("round")},
        {"revision": plan.kept("compacted")},
        {"revision": plan.kept("round", 100_000)},
    ),
)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a round of the plan is made of."""

    workers: int = 3
    held_moves: int = 180
    released_moves: int = 120
    """0: nobody is released."""
    compacts: bool = True
    prefix: str = ""
    """Before all plain keys, so that several plans do not meet in one store."""


class Scenario:
    """Builds `steps`, `calls` of them at least."""

    def __init__(
        self, seed: int, calls: int, *, says: Callable[[Step], bool] = lambda _: True, shape: Shape = Shape()
    ) -> None:
        """`says` tells what the client's API can express: what a worker needs beyond it is done aside for it, and
        other steps are left out.
        """
        self.random = Random(seed)
        self.steps: list[Step] = []
        self._says = says
        self._shape = shape
        self._app, self._channels = shape.prefix + PLAIN[0], shape.prefix + CHANNELS
        self._workers: list[PlannedWorker] = []
        # There is a compacted past from the beginning.
        self._end_of_round()
        while len(self.steps) < calls:
            self._round()

    def _round(self) -> None:
        """Workers come, are held, released, and go."""
        self._must({**plan.put(self._app, str(len(self.steps))), "keep": "round"})
        self._watch("plain", self._app)
        self._workers = [self._arrive() for _ in range(self._shape.workers)]
        self._some(self._held_moves(), self._shape.held_moves)
        self._see("plain", plan.put(self._app, f"mark {len(self.steps)}"))
        if self._shape.released_moves:
            self._released_phase()
        for worker in self._workers:
            self._must(plan.of_lease("revoke", worker.lease))
            self._may(plan.read(worker.card_key))
        self._end_of_round()

    def _end_of_round(self) -> None:
        self._must({**plan.put(self._app, str(len(self.steps))), "keep": "compacted"})
        if self._shape.compacts:
            self._must(plan.compact(plan.kept("compacted")))

    def _released_phase(self) -> None:
        """Two are released, one goes before; then everybody may look at everything."""
        self._must(plan.of_lease("revoke", self._workers.pop().lease))
        for worker in self._workers:
            self._register(worker)
            self.steps.append(plan.aside("release", instance=f"{worker.lease:x}"))
            worker.released = True
            self._may(plan.read(worker.card_key))
        self._watch("cards", CARDS)
        self._some(self._public_moves(), self._shape.released_moves)
        worker = self._workers[0]
        worker.taints = self._number()
        last = plan.put(worker.lora_key("mark"), worker.lora_card("mark"), worker.lease)
        self._see("cards", last)

    def _arrive(self) -> PlannedWorker:
        """As Dynamo's workers do: lease, event channel, card, instance record."""
        worker = PlannedWorker(self.random.getrandbits(62) | 1 << 61)
        self._must(plan.grant(worker.lease))
        self._must(plan.create(self._channels + worker.path, "tcp://127.0.0.1:1", worker.lease))
        self._may(plan.read_prefix(self._channels))
        self._register(worker)
        self._must(plan.create(f"v1/instances/{worker.path}", worker.instance_value(), worker.lease))
        return worker

    def _register(self, worker: PlannedWorker) -> None:
        self._must(plan.create(worker.card_key, worker.card(), worker.lease))

    # ---- moves ------------------------------------------------------------------------------------------------------

    def _held_moves(self) -> list[Callable[[], None]]:
        own = [
            self._read_own,
            self._ask,
            self._edit_taints,
            self._swap,
            self._put_own,
            self._lora,
            self._mixed,
            self._ask_lease,
        ]
        rare = [self._either, self._either, self._unregister, self._drop_loras, self._wrong_call, self._lock]
        return [*own * 3, *rare, *self._plain_moves()]

    def _public_moves(self) -> list[Callable[[], None]]:
        return [*self._held_moves(), *[self._look_at_all] * 6]

    def _plain_moves(self) -> list[Callable[[], None]]:
        return [self._plain_put, self._plain_read, self._plain_delete, self._plain_txn] * 4

    def _some(self, moves: list[Callable[[], None]], count: int) -> None:
        end = len(self.steps) + count
        while len(self.steps) < end:
            self.random.choice(moves)()

    def _read_own(self) -> None:
        worker = self._worker()
        key = self.random.choice([worker.card_key, worker.card_key, worker.lora_key(self._lora_name())])
        self._may(plan.read(key, **self._one_of(RANGE_OPTIONS)))

    def _edit_taints(self) -> None:
        """As Dynamo does it: read, compare and swap; now and then without reading, so that the swap may fail."""
        worker = self._worker()
        if self.random.random() < 0.7:
            self._may(plan.read(worker.card_key))
        worker.taints = self._number()
        compares = [plan.compare(worker.card_key, "MOD", plan.shown_mod(worker.card_key))]
        self._edit(plan.txn(compares, [self._put_card(worker)], [plan.read(worker.card_key)]))

    def _swap(self) -> None:
        """By what else there is to compare; the Else does nothing, or reads."""
        worker, key = self._worker_and_key()
        target, value = self._one_of(
            [("CREATE", plan.shown_create(key)), ("VERSION", 0), ("LEASE", str(worker.lease)), ("VALUE", worker.card())]
        )
        result = self._one_of(["EQUAL", "EQUAL", "NOT_EQUAL", "GREATER", "LESS"])
        worker.taints = self._number()
        then = [plan.read(key, keys_only=True), plan.read(self._app + "0")]
        if key == worker.card_key and result == "EQUAL" and target != "VERSION":
            then = [self._put_card(worker, prev_kv=True), plan.read(key)]
        self._edit(plan.txn([plan.compare(key, target, value, result)], then, [plan.read(key)][: len(then) - 1]))

    def _ask(self) -> None:
        """What an owner knows of its cards is compared, and nothing written."""
        worker, key = self._worker_and_key()
        compares = [
            plan.compare(key, "MOD", plan.shown_mod(key), self._one_of(["EQUAL", "EQUAL", "LESS"])),
            plan.compare(worker.card_key, "CREATE", plan.shown_create(worker.card_key)),
            plan.compare(key, "LEASE", str(worker.lease)),
        ]
        reads = [plan.read(key), plan.read(worker.card_key), plan.read(self._plain_key())]
        self._may(plan.txn(compares[: self.random.randrange(4)], reads, reads[:2]))

    def _either(self) -> None:
        """Both branches write, cards and other keys; which of them runs depends on how fresh the client's view is."""
        worker, key = self._worker_and_key()
        worker.taints, other, name = self._number(), self._plain_key(), self._lora_name()
        compares = [plan.compare(key, "MOD", plan.shown_mod(key))]
        then = [
            plan.delete(worker.lora_key(name), prev_kv=True),
            self._put_card(worker),
            plan.read(worker.lora_key(name)),
        ]
        failure = [plan.put(other, "either", worker.lease), self._put_card(worker, prev_kv=True), plan.read(other)]
        self._edit(plan.txn(compares, then, failure))

    def _put_own(self) -> None:
        worker = self._worker()
        worker.edits += self.random.randrange(2)
        options = self._one_of([{}, {"prev_kv": True}, {"prev_kv": True, "ignore_lease": True}, {"ignore_value": True}])
        value = "" if "ignore_value" in options else worker.card()
        lease = 0 if "ignore_lease" in options else worker.lease
        self._edit(plan.put(worker.card_key, value, lease, **options))

    def _lora(self) -> None:
        """An adapter is loaded, or unloaded, or loaded once more."""
        worker, name = self._worker(), self._lora_name()
        if name in worker.loras and self.random.random() < 0.4:
            worker.loras.discard(name)
            self._may(plan.delete(worker.lora_key(name), prev_kv=self.random.random() < 0.5))
            return
        worker.loras.add(name)
        self._edit(plan.create(worker.lora_key(name), worker.lora_card(name), worker.lease))

    def _unregister(self) -> None:
        """And register again: a released worker may not, since a new card would have to be checked."""
        worker = self._worker()
        if worker.released:
            return
        self._may(plan.delete(worker.card_key, prev_kv=True))
        self._may(plan.delete(worker.card_key))
        self._may(plan.read(worker.card_key))
        self._register(worker)

    def _drop_loras(self) -> None:
        worker = self._worker()
        worker.loras.clear()
        first = worker.lora_key("")
        self._may(plan.delete(first, plan.prefix_end(first), prev_kv=True))

    def _mixed(self) -> None:
        """Gated and plain keys in one Txn."""
        worker, other = self._worker(), self._plain_key()
        worker.taints = self._number()
        compares = [
            plan.compare(other, self._one_of(["VERSION", "MOD", "CREATE"]), 0, self._one_of(["EQUAL", "GREATER"])),
            plan.compare(worker.card_key, "VERSION", 0, "GREATER"),
        ]
        then = [plan.put(other, "mixed", worker.lease), self._put_card(worker), plan.read(worker.card_key)]
        failure = [plan.read(other), plan.read(worker.card_key, keys_only=True), plan.read_prefix(self._app, limit=2)]
        self._edit(plan.txn(compares, [*then, plan.read(other)], failure))

    def _ask_lease(self) -> None:
        self._may(plan.of_lease(self._one_of(["time_to_live", "keepalive"]), self._worker().lease))

    def _look_at_all(self) -> None:
        """The gated prefix and the whole store, as frontends and people do."""
        key, end = self._one_of([(CARDS, "v1/mdc0"), (CARDS, "v1/mdc0"), ("\0", "\0"), ("\x01", "\0"), ("a", "w")])
        if self.random.random() < 0.2:
            compares = [plan.compare(key, "MOD", 0, "GREATER", end), plan.compare(key, "VERSION", 9, "LESS", end)]
            self._may(plan.txn(compares, [plan.read(key, end, limit=2)], [plan.read(key, end, count_only=True)]))
            return
        self._may(plan.read(key, end, **self._one_of(RANGE_OPTIONS)))

    def _plain_put(self) -> None:
        options = self._one_of([{}, {}, {}, {"prev_kv": True}, {"ignore_value": True}, {"ignore_lease": True}])
        value = "" if "ignore_value" in options else self._text()
        lease = self._one_of([0, 0, self._worker().lease]) if "ignore_lease" not in options else 0
        self._may(plan.put(self._plain_key(), value, lease, **options))

    def _plain_read(self) -> None:
        options = self._one_of(RANGE_OPTIONS)
        if self.random.random() < 0.5:
            self._may(plan.read(self._plain_key(), **options))
            return
        self._may(plan.read_prefix(self._prefix(), **options))

    def _plain_delete(self) -> None:
        prev: dict[str, Any] = {"prev_kv": True} if self.random.random() < 0.5 else {}
        key = self._plain_key()
        self._may(self._one_of([plan.delete(key, **prev), plan.delete(key), plan.delete(key, key + "\xff", **prev)]))

    def _plain_txn(self) -> None:
        """Any compare, any operations, nested too; a key written twice is refused by etcd."""
        compares = [self._plain_compare() for _ in range(self.random.randrange(3))]
        then = [self._plain_operation() for _ in range(self.random.randrange(4))]
        if self.random.random() < 0.2:
            then.append(
                plan.txn([self._plain_compare()], [self._plain_operation()], [plan.read_prefix(self._app, limit=1)])
            )
        self._may(plan.txn(compares, then, [self._plain_operation() for _ in range(self.random.randrange(3))]))

    def _plain_compare(self) -> Step:
        key, result = self._plain_key(), self._one_of(["EQUAL", "NOT_EQUAL", "GREATER", "LESS"])
        targets = [
            ("VERSION", self.random.randrange(3)),
            ("MOD", plan.shown_mod(key)),
            ("CREATE", plan.shown_create(key)),
        ]
        target, value = self._one_of([*targets, ("VALUE", self._text()), ("LEASE", str(self._worker().lease))])
        return plan.compare(key, target, value, result, self._one_of(["", "", "", key + "\xff"]))

    def _plain_operation(self) -> Step:
        key = self._plain_key()
        return self.random.choice(
            [plan.put(key, self._text()), plan.put(key, prev_kv=True), plan.read(key), plan.delete(key, prev_kv=True)]
        )

    def _wrong_call(self) -> None:
        """What etcd refuses must be refused in its words, and change nothing."""
        worker, card = self._worker(), self._worker().card_key
        one, rest = self._app + "0", plan.prefix_end(self._app)
        wrong = [
            *(plan.put(one, "x", UNKNOWN_LEASE), plan.put("", "x"), plan.read(""), plan.delete("")),
            *(plan.put(one, "x", worker.lease, ignore_lease=True), plan.put(one, "x", ignore_value=True)),
            plan.txn([], [plan.put(one, "1"), plan.put(one, "2")]),
            plan.txn([], [plan.delete(self._app, rest), plan.put(one, "2")]),
            plan.txn([], [plan.delete(CARDS, "v1/mdc0"), self._put_card(worker)]),
            plan.txn([], [self._put_card(worker), self._put_card(worker)]),
            *(plan.txn([], [plan.read(key)] * TOO_MANY) for key in (one, card)),
            *(plan.of_lease(what, UNKNOWN_LEASE) for what in ("revoke", "keepalive", "time_to_live")),
            *(plan.grant(worker.lease), plan.compact(plan.kept("round", 100_000))),
            plan.compact(plan.kept("compacted")) if self._shape.compacts else plan.read(one),
        ]
        self._may(self._one_of(wrong))
        if self._shape.compacts and self.random.random() < 0.2 and self._says(step := plan.watch("past", self._app, 1)):
            self.steps += [step, plan.canceled("past")]

    def _lock(self) -> None:
        name = f"{self._shape.prefix}mutex{self.random.randrange(3)}"
        if not self._says(plan.lock(name)):
            return
        self.steps.append(plan.lock(name))
        self._read_own()
        self.steps.append(plan.unlock(name))

    # ---- how it is done ---------------------------------------------------------------------------------------------

    def _watch(self, name: str, prefix: str) -> None:
        step = plan.watch(name, prefix, prev_kv=True)
        if not self._says(step) or self.random.random() < 0.3:
            step = plan.watch(name, prefix)
        self.steps.append(step)

    def _see(self, name: str, last: Step) -> None:
        """The watch's events up to one more put, which must be there for it."""
        self._must(last)
        self.steps += [plan.events(name, last), plan.unwatch(name)]

    def _must(self, step: Step) -> None:
        self.steps.append(step if self._says(step) else plan.aside("call", step=step))

    def _edit(self, step: Step) -> None:
        """One of many: where the client cannot say it, it is made aside now and then."""
        if self._says(step) or self.random.random() < MADE_ASIDE:
            self._must(step)

    def _may(self, step: Step) -> None:
        if self._says(step):
            self.steps.append(step)

    def _put_card(self, worker: PlannedWorker, **options: Any) -> Step:
        return plan.put(worker.card_key, worker.card(), worker.lease, **options)

    def _worker(self) -> PlannedWorker:
        return self.random.choice(self._workers)

    def _worker_and_key(self) -> tuple[PlannedWorker, str]:
        worker = self._worker()
        return worker, self._one_of([worker.card_key, worker.card_key, *map(worker.lora_key, sorted(worker.loras))])

    def _lora_name(self) -> str:
        return self.random.choice(["polite", "terse", "formal"])

    def _plain_key(self) -> str:
        return f"{self._prefix()}{self.random.randrange(KEYS)}"

    def _text(self) -> str:
        return self.random.choice(["", "v", "\0\xff", "x" * self.random.randrange(300)])

    def _number(self) -> int:
        return self.random.randrange(1, 10_000)

    def _prefix(self) -> str:
        return self._shape.prefix + str(self._one_of(PLAIN))

    def _one_of(self, choices: Iterable[Any]) -> Any:
        return self.random.choice(list(choices))

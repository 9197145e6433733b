"""Txns whose Else writes, on gated keys: the branch that etcd would run, by itself and in a race, and nothing else.

What is compared is held, released or absent, gated or not, one key or a range.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from greenroom.pb.etcd import kv_pb2, rpc_pb2
from tests.support.client import (
    Compare,
    EtcdClient,
    RequestOp,
    delete,
    get,
    mod_revision_is,
    prefix_end,
    put,
    value_is,
    version_is,
)
from tests.support.endpoints import RECORDS, Endpoint, Proxy
from tests.support.workers import Worker

TOO_MANY_OPERATIONS = "etcdserver: too many operations in txn request"
FUTURE_REVISION = "etcdserver: mvcc: required revision is a future revision"
DUPLICATE_KEY = "etcdserver: duplicate key given in txn request"
MAX_COMPARES = 128
WRITERS, ROUNDS, RELEASES = 3, 12, 8


@pytest.fixture
def worker(etcd_or_proxy: Endpoint) -> Worker:
    return Worker(etcd_or_proxy.client)


@pytest.fixture(params=["held", "released"])
def registered(request: pytest.FixtureRequest, worker: Worker, etcd_or_proxy: Endpoint) -> Worker:
    """A worker with a card; straight on etcd there is but one way to have one."""
    assert worker.register().succeeded
    if request.param == "released" and isinstance(etcd_or_proxy, Proxy):
        assert etcd_or_proxy.control.pass_gates(worker.instance) == "RELEASED"
    return worker


def upsert(worker: Worker, value: bytes) -> rpc_pb2.TxnResponse:
    """Register the card, or write over the one that is there and say what it was."""
    card = worker.card_key
    return worker.client.txn(
        [version_is(card, 0)],
        [put(card, worker.card(), worker.lease), get(card)],
        [get(card), put(card, value, worker.lease, prev_kv=True), get(card)],
    )


def test_an_absent_card_is_created_and_a_present_one_overwritten(worker: Worker, etcd_or_proxy: Endpoint) -> None:
    """The same Txn twice, as a client's "put, and tell me whether it is new"."""
    before = etcd_or_proxy.public.revision()
    first, second = upsert(worker, worker.card(taints=["a"])), upsert(worker, worker.card(taints=["b"]))
    assert (first.succeeded, first.header.revision, len(first.responses)) == (True, before + 1, 2)
    assert (second.succeeded, second.header.revision, len(second.responses)) == (False, before + 2, 3)
    was, written, now = second.responses
    assert was.response_range.kvs[0] == written.response_put.prev_kv
    assert (was.response_range.kvs[0].key, was.response_range.kvs[0].value) == (worker.card_key, worker.card())
    assert now.response_range.kvs[0].value == worker.card(taints=["b"]) == worker.read().value
    assert (worker.read().version, worker.read().mod_revision) == (2, before + 2)


def test_an_else_that_etcd_would_refuse_does_no_harm_where_it_does_not_run(proxy: Proxy) -> None:
    """It reads at a revision that is to come. Another proxy touched the record, of which this one does not know yet."""
    worker = proxy.held_worker()
    ahead = [get(b"a", revision=proxy.public.revision() + 100)]
    for number in range(3):
        record = RECORDS + worker.instance.encode()
        proxy.public.put(record, proxy.public.get(record).value, ignore_lease=True)  # type: ignore[union-attr]
        card = worker.card(taints=[str(number)])
        answer = worker.client.txn([version_is(b"a", 0)], [put(worker.card_key, card, worker.lease)], ahead)
        assert (answer.succeeded, worker.read().value) == (True, card)
    code, text = refusal(worker.client, rpc_pb2.TxnRequest(compare=[version_is(worker.card_key, 1)], failure=ahead))
    assert (code, text) == (grpc.StatusCode.OUT_OF_RANGE, FUTURE_REVISION)


def test_what_an_else_registers_is_held_like_anything(proxy: Proxy) -> None:
    """A new card, a changed one and a deletion, each from an Else: checked anew, and nothing public."""
    worker = Worker(proxy.client)
    never = [version_is(b"nobody", 1)]
    assert not proxy.client.txn(never, [], [put(worker.card_key, worker.card(), worker.lease)]).succeeded
    assert (proxy.held(worker), proxy.shown(worker)) == ([worker.card_key], [])
    first = proxy.control.instance(worker.instance)
    proxy.client.txn(never, [], [put(worker.card_key, worker.card(context_length=1), worker.lease)])
    changed = proxy.control.instance(worker.instance)
    assert [gate.attempt for gate in changed.gates] == [gate.attempt + 1 for gate in first.gates]
    proxy.client.txn(never, [put(b"a", b"")], [delete(worker.card_key)])
    assert proxy.held(worker) == proxy.shown(worker) == []


def test_a_swap_that_lost_takes_note_of_it(registered: Worker) -> None:
    """Compare-and-swap on a card in either place, with an Else that writes another card and another key."""
    worker, seen = registered, registered.read()
    gold, silver = worker.card(taints=["gold"]), worker.card(taints=["silver"])
    swap = [mod_revision_is(worker.card_key, seen.mod_revision)]
    lost = [put(b"lost", b"1", worker.lease), put(worker.card_key, silver, worker.lease)]
    won = worker.client.txn(swap, [put(worker.card_key, gold, worker.lease)], lost)
    assert (won.succeeded, worker.read().value, worker.client.get(b"lost")) == (True, gold, None)
    late = worker.client.txn(swap, [put(worker.card_key, gold, worker.lease)], lost)
    assert (late.succeeded, worker.read().value, len(late.responses)) == (False, silver, 2)
    assert worker.client.get(b"lost") is not None


FIELDS = {
    Compare.VERSION: "version",
    Compare.CREATE: "create_revision",
    Compare.MOD: "mod_revision",
    Compare.VALUE: "value",
    Compare.LEASE: "lease",
}
RESULTS = (Compare.EQUAL, Compare.NOT_EQUAL, Compare.GREATER, Compare.LESS)


@pytest.mark.parametrize("which", ["card", "other", "no card", "no other"])
def test_every_compare_of_a_key_with_itself_decides_as_etcds(registered: Worker, which: str) -> None:
    """It is equal and nothing else; but a value that is not there is not even that."""
    worker = registered
    worker.client.put(b"other", b"v", worker.lease)
    key = {"card": worker.card_key, "other": b"other", "no card": worker.lora_key(), "no other": b"none"}[which]
    for target, field in FIELDS.items():
        for result in RESULTS:
            has = getattr(worker.client.get(key) or kv_pb2.KeyValue(), field)
            compare = Compare(key=key, target=target, result=result, **{field: has})
            card = worker.card(taints=[field, str(result)])
            answer = worker.client.txn([compare], [put(b"a", b"")], [put(worker.card_key, card, worker.lease)])
            holds = result == Compare.EQUAL and not (which.startswith("no") and target == Compare.VALUE)
            assert answer.succeeded == holds, compare
            assert (worker.read().value == card) == (not holds), compare


def range_is(field: int, result: int, start: bytes, end: bytes, **given: int | bytes) -> Compare:
    return Compare(key=start, range_end=end, target=field, result=result, **given)  # type: ignore[arg-type]


RANGES: dict[str, tuple[Compare, bool]] = {
    "all are new": (range_is(Compare.VERSION, Compare.EQUAL, b"r/", b"r0", version=1), True),
    "one is not": (range_is(Compare.VALUE, Compare.NOT_EQUAL, b"r/", b"r0", value=b"2"), False),
    "the last is not": (range_is(Compare.VALUE, Compare.LESS, b"r/", b"r0", value=b"3"), False),
    "from a key on": (range_is(Compare.VERSION, Compare.GREATER, b"r/", b"\0", version=0), True),
    "none is old": (range_is(Compare.MOD, Compare.LESS, b"\0", b"\0", mod_revision=1), False),
    "empty": (range_is(Compare.VERSION, Compare.EQUAL, b"s/", b"s0", version=0), True),
    "empty, has none": (range_is(Compare.CREATE, Compare.GREATER, b"s/", b"s0", create_revision=0), False),
    "empty, has no value": (range_is(Compare.VALUE, Compare.EQUAL, b"s/", b"s0", value=b""), False),
    "ends before it starts": (range_is(Compare.VERSION, Compare.LESS, b"r0", b"r/", version=1), True),
    "the held ones are in none": (range_is(Compare.LEASE, Compare.NOT_EQUAL, b"v1/mdc/", b"v1/mdc0", lease=1), True),
}


@pytest.mark.parametrize("name", RANGES)
def test_a_compare_over_a_range_decides_as_etcds(worker: Worker, etcd_or_proxy: Endpoint, name: str) -> None:
    """It must hold for every key in the range; an empty range is one absent key."""
    etcd_or_proxy.hold_somebody()
    for number in (b"1", b"2", b"3"):
        worker.client.put(b"r/" + number, number)
    compare, holds = RANGES[name]
    then = worker.card(taints=["then"]), worker.card(taints=["else"])
    answer = worker.client.txn([compare], *([put(worker.card_key, card, worker.lease)] for card in then))
    assert answer.succeeded == holds
    assert worker.read().value == then[not holds]


def test_the_first_compare_that_fails_is_enough_and_all_must_hold(registered: Worker) -> None:
    worker = registered
    good = [version_is(b"none", 0), value_is(worker.card_key, worker.card())]
    for bad in (version_is(b"none", 1), value_is(worker.card_key, b"another"), version_is(worker.lora_key(), 1)):
        for at in range(len(good) + 1):
            answer = worker.client.txn([*good[:at], bad, *good[at:]], [put(b"a", b"")], [put(b"b", b"")])
            assert not answer.succeeded
    assert worker.client.txn(good, [put(b"c", b"")], [put(b"b", b"")]).succeeded
    assert (worker.client.get(b"a"), worker.read(b"b").version, worker.read(b"c").version) == (None, 9, 1)


def test_a_branch_without_gated_keys_runs_beside_one_that_has_them(worker: Worker) -> None:
    """What it compares is another key too, so that nothing gated is left in it."""
    card = put(worker.card_key, worker.card(), worker.lease)
    lost = worker.client.txn([version_is(b"a", 1)], [card], [put(b"b", b"1"), get(b"b"), delete(b"none")])
    assert (lost.succeeded, len(lost.responses), worker.client.get(worker.card_key)) == (False, 3, None)
    won = worker.client.txn([version_is(b"b", 1)], [put(b"b", b"2")], [card])
    assert (won.succeeded, worker.read(b"b").value, worker.client.get(worker.card_key)) == (True, b"2", None)


def test_nothing_compared_is_then_and_an_empty_branch_is_nothing(worker: Worker) -> None:
    card = put(worker.card_key, worker.card(), worker.lease)
    assert worker.client.txn([], [put(b"a", b"")], [card]).succeeded
    assert worker.client.txn([version_is(b"a", 1)], [], [card]).succeeded
    assert worker.client.get(worker.card_key) is None
    answer = worker.client.txn([version_is(b"a", 2)], [], [card])
    assert (answer.succeeded, worker.read().value) == (False, worker.card())


def test_an_else_may_delete_and_nest_other_keys(registered: Worker) -> None:
    """Unregister unless somebody says to stay; a nested Txn of other keys is carried out as it is."""
    worker = registered
    inner = RequestOp(request_txn=rpc_pb2.TxnRequest(compare=[version_is(b"a", 0)], success=[put(b"a", b"1")]))
    answer = worker.client.txn(
        [version_is(b"stay", 1)], [], [inner, delete(worker.card_key, prev_kv=True), get(worker.card_key)]
    )
    nested, deleted, gone = answer.responses
    assert (answer.succeeded, nested.response_txn.succeeded, gone.response_range.count) == (False, True, 0)
    assert [(kv.key, kv.value) for kv in deleted.response_delete_range.prev_kvs] == [(worker.card_key, worker.card())]
    assert (worker.client.get(worker.card_key), worker.read(b"a").value) == (None, b"1")


def refusal(client: EtcdClient, txn: rpc_pb2.TxnRequest) -> tuple[grpc.StatusCode, str | None]:
    with pytest.raises(grpc.RpcError) as refused:
        client.kv.Txn(txn, timeout=20)
    return refused.value.code(), refused.value.details()


def wrong_branches(worker: Worker) -> dict[str, list[RequestOp]]:
    card = put(worker.card_key, worker.card(), worker.lease)
    return {
        DUPLICATE_KEY: [card, delete(b"v1/", b"v10")],
        TOO_MANY_OPERATIONS: [card, *[get(b"a")] * 128],
        "etcdserver: key is not provided": [card, put(b"", b"")],
        "etcdserver: value is provided": [put(worker.card_key, worker.card(), worker.lease, ignore_value=True)],
        "etcdserver: lease is provided": [card, put(b"b", b"", worker.lease, ignore_lease=True)],
        "etcdserver: key not found": [card, RequestOp()],
    }


@pytest.mark.parametrize("text", [
    DUPLICATE_KEY, TOO_MANY_OPERATIONS, "etcdserver: key is not provided", "etcdserver: value is provided",
    "etcdserver: lease is provided", "etcdserver: key not found",
])  # fmt: skip
def test_what_etcd_refuses_about_a_branch_is_refused_whichever_runs(
    registered: Worker, etcd_or_proxy: Endpoint, text: str
) -> None:
    """A branch that does not run is part of the request all the same."""
    worker, branch = registered, wrong_branches(registered)[text]
    fine, before = put(b"fine", b"", worker.lease), etcd_or_proxy.public.revision()
    for compare in (version_is(b"none", 0), version_is(b"none", 1)):
        for then, other in ((branch, [fine]), ([fine], branch)):
            txn = rpc_pb2.TxnRequest(compare=[compare, version_is(worker.card_key, 1)], success=then, failure=other)
            assert refusal(worker.client, txn) == (grpc.StatusCode.INVALID_ARGUMENT, text)
    assert etcd_or_proxy.public.revision() == before


def test_of_several_faults_etcds_choice_is_named(proxy: Proxy) -> None:
    """etcd looks at one operation after the other, and only then at keys that are written twice."""
    worker = proxy.held_worker()
    faults = list(wrong_branches(worker).values())
    for first in faults:
        for second in faults:
            for txn in (
                rpc_pb2.TxnRequest(success=[*first, *second]),
                rpc_pb2.TxnRequest(success=first, failure=second),
                rpc_pb2.TxnRequest(compare=[version_is(b"", 0)], success=first, failure=second),
            ):
                assert refusal(proxy.client, txn) == refusal(proxy.public, txn)


def test_two_branches_of_a_hundred_operations(registered: Worker) -> None:
    """The proxy's own compares and operations take only a few of etcd's 128 in each."""
    worker, card = registered, registered.card_key
    for number, taint in ((2, "else"), (3, "again")):
        value = worker.card(taints=[taint])
        branch = [put(card, value, worker.lease), *[get(card)] * 99]
        answer = worker.client.txn([version_is(b"none", number)] * 100, branch, branch)
        assert (answer.succeeded, len(answer.responses), worker.read().value) == (False, 100, value)


def test_as_many_compares_as_etcd_takes(worker: Worker) -> None:
    """Another key is written where all of them hold; where one does not, the card is registered, and then edited."""
    card, fine = worker.card_key, [version_is(b"none/%d" % number, 0) for number in range(MAX_COMPARES - 1)]
    for key, version, is_else in ((b"a", 0, False), (b"a", 0, True), (card, 0, True)):
        value = worker.card(taints=[str(key)])
        compares = [*fine, version_is(key, version)]
        answer = worker.client.txn(compares, [put(b"a", b"1")], [put(card, value, worker.lease), get(card)])
        assert answer.succeeded != is_else
        assert not is_else or worker.read().value == value == answer.responses[1].response_range.kvs[0].value


def test_as_many_compares_as_etcd_takes_of_which_a_range_fails(worker: Worker) -> None:
    """What made it fail is one of its keys, and may be one of them all."""
    worker.client.put(b"r/1")
    fine = [version_is(b"none/%d" % number, 0) for number in range(MAX_COMPARES - 1)]
    compares = [*fine, range_is(Compare.VERSION, Compare.GREATER, b"r/", b"r0", version=1)]
    answer = worker.client.txn(compares, [put(b"a", b"1")], [put(worker.card_key, worker.card(), worker.lease)])
    assert (answer.succeeded, worker.read().value) == (False, worker.card())


def test_a_branch_that_would_put_under_an_ended_lease_is_refused_only_if_it_runs(worker: Worker) -> None:
    """Whether a lease lives, etcd asks of what it carries out."""
    gone = worker.client.grant()
    worker.client.revoke(gone)
    dead, alive = put(b"a", b"", gone), put(worker.card_key, worker.card(), worker.lease)
    assert worker.client.txn([version_is(b"none", 0)], [alive], [dead]).succeeded
    txn = rpc_pb2.TxnRequest(compare=[version_is(worker.card_key, 0)], success=[alive], failure=[dead])
    assert refusal(worker.client, txn) == (grpc.StatusCode.NOT_FOUND, "etcdserver: requested lease not found")


def test_a_range_too_large_to_look_at_is_refused_by_name(proxy: Proxy) -> None:
    """What decides could lie beyond what the proxy reads; where a key that it reads decides, it is enough."""
    worker, client = Worker(proxy.client), proxy.client
    for start in range(0, 1100, 100):
        client.txn([], [put(b"many/%04d" % number, b"") for number in range(start, start + 100)])
    txn = rpc_pb2.TxnRequest(success=[put(worker.card_key, worker.card(), worker.lease)], failure=[put(b"a", b"")])
    many = b"many/", prefix_end(b"many/")
    txn.compare.append(range_is(Compare.VERSION, Compare.EQUAL, *many, version=1))
    code, text = refusal(client, txn)
    assert code is grpc.StatusCode.UNIMPLEMENTED
    assert text is not None
    assert "more than 1000 keys, from b'many/' to b'many0'" in text
    txn.compare[0].version = 2
    assert not client.kv.Txn(txn, timeout=20).succeeded
    assert client.get(b"a") is not None


def test_of_many_writers_each_wins_or_takes_note_of_having_lost(registered: Worker) -> None:
    """Each answer tells what was written: a round is counted in the card or in the writer's own key, never in both."""
    worker = registered

    def count(writer: int) -> int:
        won = 0
        for number in range(ROUNDS):
            seen = worker.read()
            value = worker.card(taints=[f"{writer} {number}"])
            note = put(b"lost/%d/%d" % (writer, number), seen.value, worker.lease)
            swap = [mod_revision_is(worker.card_key, seen.mod_revision)]
            won += worker.client.txn(swap, [put(worker.card_key, value, worker.lease)], [note]).succeeded
        return won

    with ThreadPoolExecutor(WRITERS) as pool:
        won = sum(pool.map(count, range(WRITERS)))
    assert worker.read().version == won + 1
    assert worker.client.prefix(b"lost/").count == WRITERS * ROUNDS - won


def test_a_release_in_between_is_no_reason_for_the_else(proxy: Proxy) -> None:
    """The value is what the worker says it is, held and public alike: no Else runs, and no write is lost."""
    with ThreadPoolExecutor(1) as pool:
        for number in range(RELEASES):
            worker = proxy.held_worker(component=f"backend-{number}")
            passing = pool.submit(proxy.control.pass_gates, worker.instance)
            written, ran_else = write_until(worker, passing.done)
            assert passing.result() == "RELEASED"
            assert ran_else == 0
            assert proxy.public.get(worker.card_key).value == written  # type: ignore[union-attr]


def write_until(worker: Worker, done: Callable[[], bool]) -> tuple[bytes, int]:
    """Swaps taints by value until it is done and once more: the last value, and how often an Else ran."""
    value, ran_else, last = worker.card(), 0, False
    while not last:
        last = done()
        changed = worker.card(taints=["a" if b'"b"' in value else "b"])
        answer = worker.client.txn(
            [value_is(worker.card_key, value)],
            [put(worker.card_key, changed, worker.lease)],
            [put(b"else", b""), delete(worker.card_key)],
        )
        ran_else += not answer.succeeded
        value = changed
    return value, ran_else

"""What a call uses of gated keys, and which calls are refused before anything is read."""

import pytest

from greenroom.core.own_leases import new_own_lease
from greenroom.core.ranges import TOO_MANY_OPERATIONS
from greenroom.core.templates import GatedKey
from greenroom.core.txns import MAX_OPERATIONS
from greenroom.core.worker_calls import (
    DUPLICATE_KEY,
    KEY_NOT_PROVIDED,
    LEASE_PROVIDED,
    NOTHING_ASKED,
    VALUE_PROVIDED,
    Uses,
    as_txn,
    check_put,
    examine,
)
from greenroom.errors import EtcdRefusal, RefusedWrite, UnsupportedCall
from greenroom.pb.etcd import rpc_pb2
from tests.support.instances import (
    GATED_KEYS,
    INSTANCE,
    LEASE,
    LORA,
    I,
    K,
    create_txn,
    delete,
    edited,
    get,
    put,
    recorded,
    recorded_txns,
    value_of,
    version,
)
from tests.support.work import steps_of

OTHERS = b"v1/mdc/dynamo/pyw/generate/6177a228983c0b99"
PLAIN = put(b"other", b"x", lease=0)


def txn(*then: rpc_pb2.RequestOp, compare: tuple[rpc_pb2.Compare, ...] = (), **more: object) -> rpc_pb2.TxnRequest:
    return rpc_pb2.TxnRequest(compare=compare, success=then, **more)  # type: ignore[arg-type]


def nested(*then: rpc_pb2.RequestOp, orelse: tuple[rpc_pb2.RequestOp, ...] = (), **more: object) -> rpc_pb2.RequestOp:
    return rpc_pb2.RequestOp(request_txn=txn(*then, failure=orelse, **more))


def used(request: rpc_pb2.TxnRequest) -> Uses:
    uses = examine(request, GATED_KEYS)
    assert uses is not None
    assert all(isinstance(gated, GatedKey) and gated.key == key for key, gated in uses.keys.items())
    return uses


def test_puts_and_deletes_are_txns_of_one_operation() -> None:
    assert as_txn(PLAIN.request_put) == txn(PLAIN)
    assert as_txn(delete(K).request_delete_range) == txn(delete(K))
    assert as_txn(create_txn(K)) == create_txn(K)


def test_a_create_as_dynamo_sends_it() -> None:
    uses = used(create_txn(K))
    assert (uses.instance, list(uses.keys), list(uses.puts), uses.deletes) == (INSTANCE, [K], [K], frozenset())
    assert uses.puts[K].value == value_of(K)


def test_every_recorded_write_is_taken_and_belongs_to_its_own_lease() -> None:
    seen = [examine(request, GATED_KEYS) for request in recorded_txns()]
    assert sum(uses is not None for uses in seen) == 15
    for request, uses in zip(recorded_txns(), seen, strict=True):
        gated = request.success[0].request_put.key.startswith((b"v1/mdc/", b"v1/instances/"))
        assert gated == (uses is not None)
        assert uses is None or uses.instance == f"{request.success[0].request_put.lease:x}"


def test_every_recorded_delete_names_one_key() -> None:
    for message in recorded("KV/DeleteRange"):
        key = message["key"].encode()
        uses = examine(txn(delete(key)), GATED_KEYS)
        assert (uses is not None) == key.startswith((b"v1/mdc/", b"v1/instances/"))
        assert uses is None or uses.deletes == {key}


def test_keys_come_in_the_order_of_the_call_whatever_is_done_with_them() -> None:
    uses = used(txn(put(I), delete(LORA), get(K), compare=(version(LORA), version(b"other")), failure=[get(K)]))
    assert list(uses.keys) == [LORA, I, K]
    assert (list(uses.puts), uses.deletes) == ([I], {LORA})


def test_a_key_that_is_only_compared_or_read_is_used() -> None:
    assert list(used(txn(PLAIN, compare=(version(K),))).keys) == [K]
    assert list(used(txn(PLAIN, get(K))).keys) == [K]
    assert list(used(txn(PLAIN, failure=[get(K)])).keys) == [K]


@pytest.mark.parametrize(
    "request_",
    [
        txn(),
        txn(PLAIN, get(b"other"), delete(b"other"), compare=(version(b"other"),)),
        txn(get(b"v1/mdc/", range_end=b"v1/mdc0")),
        txn(delete(b"v1/mdc/", b"v1/mdc0")),
        txn(delete(b"v1/mdc/dynamo/pyw/", b"v1/mdc/dynamo/pyw0")),
        txn(PLAIN, compare=(rpc_pb2.Compare(key=b"v1/mdc/", range_end=b"v1/mdc0", version=0),)),
        txn(get(b"v1/mdc/odd"), delete(b"v1/mdc/odd"), compare=(version(b"v1/mdc/odd"),)),
        txn(nested(PLAIN)),
        txn(rpc_pb2.RequestOp()),
        txn(failure=[PLAIN]),
    ],
    ids=[
        "nothing", "other keys", "a range is the public view", "a range delete takes public keys", "of many instances",
        "a compared range", "odd keys that nobody could put", "nested", "an empty operation", "an Else that writes",
    ],
)  # fmt: skip
def test_what_uses_no_gated_key(request_: rpc_pb2.TxnRequest) -> None:
    assert examine(request_, GATED_KEYS) is None


@pytest.mark.parametrize(("start", "end"), [(K, K + b"0"), (K + b"/", K + b"0"), (K + b"/a", K + b"/b")])
def test_a_range_delete_within_one_instance_concerns_it(start: bytes, end: bytes) -> None:
    assert used(txn(delete(start, end))) == Uses(INSTANCE, {}, {}, frozenset())


@pytest.mark.parametrize(
    "request_",
    [
        txn(get(K), get(OTHERS)),
        txn(get(K), compare=(version(OTHERS),)),
        txn(get(OTHERS), delete(K + b"/", K + b"0")),
        txn(get(OTHERS), failure=[get(K)]),
    ],
    ids=["two reads", "a compare", "a range", "an Else"],
)
def test_keys_of_two_instances_in_one_txn_are_refused(request_: rpc_pb2.TxnRequest) -> None:
    with pytest.raises(
        UnsupportedCall, match="one instance only, this one uses those of 6177a228983c0b4d, 6177a228983c0b99"
    ):
        examine(request_, GATED_KEYS)


@pytest.mark.parametrize(
    "inner",
    [
        nested(put(K)),
        nested(get(K)),
        nested(delete(K)),
        nested(delete(K + b"/", K + b"0")),
        nested(PLAIN, compare=(version(K),)),
        nested(PLAIN, orelse=(get(K),)),
        nested(nested(get(K))),
    ],
    ids=["put", "get", "delete", "range", "compare", "Else", "deeper"],
)
@pytest.mark.parametrize("branch", ["success", "failure"])
def test_gated_keys_inside_a_nested_txn_are_refused(inner: rpc_pb2.RequestOp, branch: str) -> None:
    with pytest.raises(UnsupportedCall, match="inside a nested Txn"):
        examine(rpc_pb2.TxnRequest(**{branch: [inner]}), GATED_KEYS)


@pytest.mark.parametrize(
    ("otherwise", "writes"),
    [
        ([PLAIN], True),
        ([get(b"other"), delete(b"other")], True),
        ([nested(PLAIN)], True),
        ([nested(orelse=(PLAIN,))], True),
        ([put(LORA)], True),
        ([delete(K + b"/", K + b"0")], True),
        ([get(K), get(b"other", revision=7)], True),
        ([nested(get(b"other", revision=7))], True),
        ([get(K), nested(get(b"other"))], False),
        ([], False),
    ],
)
def test_an_else_that_writes_or_may_be_refused_is_told_for_it_must_not_run_when_the_fence_is_lost(
    otherwise: list[rpc_pb2.RequestOp], writes: bool
) -> None:
    assert used(txn(put(K), failure=otherwise)).writes_in_else == writes


def test_two_branches_may_write_the_same_key() -> None:
    assert used(txn(put(K), failure=[put(K, edited(K, context_length=1))])).keys.keys() == {K}
    assert used(txn(delete(K), failure=[put(K)])).writes_in_else


@pytest.mark.parametrize("key", [b"\x01", b"\x01greenroom/instances/1", b"\x00", b"\x01\xff\xff"])
@pytest.mark.parametrize("where", ["alone", "nested", "in an Else"])
def test_a_put_of_a_reserved_key_is_refused_wherever_it_is(key: bytes, where: str) -> None:
    reserved = put(key, b"x", lease=0)
    request = {"alone": txn(reserved), "nested": txn(nested(reserved)), "in an Else": txn(failure=[reserved])}[where]
    with pytest.raises(RefusedWrite, match="reserved"):
        examine(request, GATED_KEYS)


@pytest.mark.parametrize(
    "key",
    [
        b"v1/mdc/x",
        b"v1/mdc/",
        K.upper().replace(b"V1/MDC/DYNAMO/PYW/GENERATE", b"v1/mdc/dynamo/pyw/generate"),
        K + b"/lora/deeper",
        K + b"/",
        b"v1/mdc/dynamo/pyw/generate/06177a228983c0b4d",
        b"v1/mdc/dynamo/pyw/generate/0",
        b"v1/mdc/dynamo//generate/6177a228983c0b4d",
        b"v1/mdc/\xff/pyw/generate/6177a228983c0b4d",
    ],
)
def test_a_put_under_a_gated_prefix_that_fits_no_template_names_the_expected_shape(key: bytes) -> None:
    with pytest.raises(RefusedWrite, match=r"expected|shape.*v1/mdc/\{namespace\}"):
        check_put(put(key, value_of(K)).request_put, GATED_KEYS)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lease": 0}, "the Put is under lease 0"),
        ({"lease": LEASE + 1}, "the Put is under lease 6177a228983c0b4e"),
        ({"lease": -1}, "the Put is under lease -1"),
        ({"lease": LEASE + 1, "ignore_lease": True}, "the Put is under lease 6177a228983c0b4e"),
        ({"value": value_of(LORA)}, "the value's model_suffix is 'lora-a'"),
        ({"value": value_of(K).replace(b'"pyw"', b'"b"')}, "component is 'b', the key's component is 'pyw'"),
        ({"value": value_of(K).replace(b"41293", b"41294")}, "the value's instance_id is 7023260439144041294"),
    ],
    ids=["no lease", "another lease", "a negative one", "another, ignored", "suffix", "component", "instance_id"],
)  # fmt: skip
def test_a_put_that_disagrees_with_itself_is_refused_with_both_sides(options: dict[str, object], said: str) -> None:
    with pytest.raises(RefusedWrite, match=said):
        check_put(put(K, **options).request_put, GATED_KEYS)


def test_nobody_registers_with_a_lease_of_greenrooms_own() -> None:
    """On a rollout hold's lease it would be an instance, whose lease a person may end: and the hold with it."""
    lease = new_own_lease()
    with pytest.raises(RefusedWrite, match=f"lease {lease:x} is Greenroom's own"):
        check_put(put(b"v1/mdc/dynamo/pyw/generate/%x" % lease, b"x", lease=lease).request_put, GATED_KEYS)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"value": b"not json"},
        {"ignore_lease": True, "lease": 0},
        {"ignore_value": True, "value": value_of(LORA)},
        {"prev_kv": True},
    ],
    ids=str,
)
def test_a_put_that_agrees_or_says_nothing_is_taken(options: dict[str, object]) -> None:
    check_put(put(K, **options).request_put, GATED_KEYS)


def test_other_keys_need_not_agree_with_anything() -> None:
    check_put(PLAIN.request_put, GATED_KEYS)
    check_put(put(b"v1/mdcs", b"x", lease=5).request_put, GATED_KEYS)


@pytest.mark.parametrize("part", ["compare", "success", "failure"])
@pytest.mark.parametrize("count", [MAX_OPERATIONS, MAX_OPERATIONS + 1])
def test_as_many_operations_as_etcd_takes_of_the_call_as_it_was_sent(part: str, count: int) -> None:
    request = create_txn(K)
    many = [version(b"k%d" % number) if part == "compare" else get(b"k%d" % number) for number in range(count - 1)]
    getattr(request, part).extend(many)
    if count <= MAX_OPERATIONS:
        assert examine(request, GATED_KEYS)
        return
    with pytest.raises(EtcdRefusal, match=TOO_MANY_OPERATIONS):
        examine(request, GATED_KEYS)


@pytest.mark.parametrize("inner", ["compare", "success", "failure"])
@pytest.mark.parametrize(("beside", "left"), [(0, 127), (1, 126), (100, 27)])
def test_a_nested_txn_has_what_its_outer_one_left_of_the_limit(inner: str, beside: int, left: int) -> None:
    """As etcd counts: the largest of a Txn's three parts is taken off for those within it."""
    for count, refused in ((left, False), (left + 1, True)):
        parts = [version(b"k") if inner == "compare" else get(b"k")] * count
        request = rpc_pb2.TxnRequest(compare=[version(K)], failure=[get(b"k")] * beside)
        request.failure.add(request_txn=rpc_pb2.TxnRequest(**{inner: parts}))
        if not refused:
            assert examine(request, GATED_KEYS)
            continue
        with pytest.raises(EtcdRefusal, match=TOO_MANY_OPERATIONS):
            examine(request, GATED_KEYS)


def test_nested_puts_and_deletes_by_the_thousand_do_not_stop_everybody_elses_calls() -> None:
    """Compared one by one they took seconds, in which no keepalive was answered: twice as many are twice the work."""

    def steps(count: int) -> int:
        deletes = [nested(*(delete(b"d%d/%d" % (n, m)) for m in range(count))) for n in range(30)]
        puts = [nested(*(put(b"p%d/%d" % (n, m), b"", lease=0) for m in range(count))) for n in range(30)]
        request = txn(*deletes, *puts, put(K))
        return steps_of(lambda: examine(request, GATED_KEYS))

    assert steps(60) < 2.5 * steps(30)


def test_deleted_ranges_that_overlap_touch_or_hold_each_other_are_one() -> None:
    """Each key is looked up among the ranges as they are when all are joined."""
    for ranges in (
        [(b"b", b"d"), (b"f", b"h")],
        [(b"f", b"h"), (b"c", b"d"), (b"b", b"c")],
        [(b"g", b"h"), (b"b", b"d"), (b"f", b"g"), (b"bb", b"c")],
    ):
        for key in (b"a", b"b", b"bz", b"c", b"cz", b"d", b"e", b"f", b"g", b"gz", b"h"):
            request = txn(put(K), *(delete(start, end) for start, end in ranges), put(key, b"", lease=0))
            inside = b"b" <= key < b"d" or b"f" <= key < b"h"
            if inside:
                with pytest.raises(EtcdRefusal, match=DUPLICATE_KEY):
                    examine(request, GATED_KEYS)
            else:
                assert examine(request, GATED_KEYS)


def a(value: bytes = b"x") -> rpc_pb2.RequestOp:
    return put(b"a", value, lease=0)


NO_A = delete(b"a")
UP_TO_C = delete(b"a", b"c")
B = put(b"b", b"x", lease=0)


@pytest.mark.parametrize(
    ("operations", "refused"),
    [
        ((a(), a()), True),
        ((a(), NO_A), True),
        ((NO_A, a()), True),
        ((NO_A, NO_A), False),
        ((UP_TO_C, B), True),
        ((UP_TO_C, put(b"c", b"x", lease=0)), False),
        ((delete(b"a", b"\0"), B), False),
        ((delete(b"c", b"a"), B), False),
        ((nested(a()), nested(a())), True),
        ((nested(a()), nested(orelse=(a(),))), True),
        ((nested(a(), orelse=(a(),)),), False),
        ((nested(a(), orelse=(NO_A,)),), False),
        ((nested(NO_A, orelse=(a(),)),), False),
        ((a(), nested(orelse=(NO_A,))), True),
        ((nested(a()), NO_A), True),
        ((nested(a()), nested(NO_A)), False),
        ((nested(NO_A), nested(a())), True),
        ((nested(nested(a()), nested(NO_A)),), False),
        ((delete(b"v1/", b"v10"), put(LORA)), True),
    ],
)
def test_writes_that_meet_are_refused_exactly_where_etcd_refuses_them(
    operations: tuple[rpc_pb2.RequestOp, ...], refused: bool
) -> None:
    """Each of these was tried on etcd itself: it lets nested deletes come after nested puts, and takes an end of one
    zero byte for a small key in this check."""
    request = txn(put(K), *operations)
    if not refused:
        assert examine(request, GATED_KEYS)
        return
    with pytest.raises(EtcdRefusal, match=DUPLICATE_KEY):
        examine(request, GATED_KEYS)


def test_two_writes_of_one_gated_key_are_refused_as_etcd_does() -> None:
    for request in (
        txn(put(K), put(K, edited(K, context_length=1))),
        txn(put(K), delete(K)),
        txn(put(LORA), delete(K, K + b"0")),
    ):
        with pytest.raises(EtcdRefusal, match=DUPLICATE_KEY):
            examine(request, GATED_KEYS)


def test_etcd_judges_for_itself_what_uses_no_gated_key() -> None:
    """It checks permissions first, so its answer may be another one."""
    assert examine(txn(a(), a()), GATED_KEYS) is None
    assert examine(txn(*[get(b"k")] * 200), GATED_KEYS) is None


EMPTY = rpc_pb2.RequestOp()


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (txn(put(K), put(K), put(b"", b"", lease=0)), KEY_NOT_PROVIDED),
        (txn(put(K), put(K), delete(b"")), KEY_NOT_PROVIDED),
        (txn(put(K), put(K), get(b"")), KEY_NOT_PROVIDED),
        (txn(put(K), put(K), compare=(version(b""),)), KEY_NOT_PROVIDED),
        (txn(put(K), put(K), nested(get(b""))), KEY_NOT_PROVIDED),
        (txn(put(K), put(K), put(b"a", b"x", ignore_value=True)), VALUE_PROVIDED),
        (txn(put(K), put(K), put(b"a", b"x", ignore_lease=True)), LEASE_PROVIDED),
        (txn(put(K), put(K), failure=[EMPTY]), NOTHING_ASKED),
        (txn(put(K), EMPTY, get(b"")), NOTHING_ASKED),
        (txn(put(K), get(b""), EMPTY), KEY_NOT_PROVIDED),
        (txn(put(K), get(b""), *[get(b"a")] * MAX_OPERATIONS), TOO_MANY_OPERATIONS),
        (txn(put(K), put(K)), DUPLICATE_KEY),
    ],
)
def test_of_several_faults_the_one_is_named_that_etcd_names(request_: rpc_pb2.TxnRequest, text: str) -> None:
    """What is wrong with one operation comes before keys that are written twice."""
    with pytest.raises(EtcdRefusal) as refused:
        examine(request_, GATED_KEYS)
    assert str(refused.value) == text

"""The benchmark's arithmetic and its light client: what its figures rest on, for any input."""

import math
import struct

import pytest
from hpack import Decoder
from hypothesis import given
from hypothesis import strategies as st

from greenroom.pb.etcd import rpc_pb2
from tests.bench.cards import card_key, edit, registration
from tests.bench.figures import Case, Sample, percentile, ratio, spread
from tests.bench.http2 import Answers, CallFailed
from tests.bench.report import markdown
from tests.bench.targets import judge
from tests.bench.templates import FIRST_LEASE
from tests.bench.ways import GREENROOM, GRPC_PROXY, HAPROXY
from tests.bench.workloads import WORKLOADS
from tests.support.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    RST_STREAM,
    frame,
    framed_message,
    frames_in,
    header_block,
    header_blocks,
    messages_in,
)

SMALL = st.integers(0, 10**12 - 1)
LEASES = st.integers(FIRST_LEASE, 2 * FIRST_LEASE - 1)
TIMES = st.lists(st.integers(1, 10**9), min_size=1, max_size=50)


@pytest.mark.parametrize("name", WORKLOADS)
@given(key=SMALL, call=SMALL)
def test_a_filled_template_is_the_message_built_in_full(name: str, key: int, call: int) -> None:
    workload = WORKLOADS[name]
    assert workload.template.filled(key, call) == workload.build(key, call)


@given(lease=LEASES, call=SMALL)
def test_a_card_is_of_the_lease_that_was_filled_in(lease: int, call: int) -> None:
    put = rpc_pb2.PutRequest.FromString(edit().filled(lease, call))
    txn = rpc_pb2.TxnRequest.FromString(registration().filled(lease, call))
    assert (put.key, put.lease) == (card_key(lease), lease)
    assert b'"instance_id":%d,' % lease in put.value
    assert txn.success[0].request_put == put


@given(values=TIMES, percent=st.integers(1, 100))
def test_a_percentile_is_the_least_that_so_many_do_not_exceed(values: list[int], percent: int) -> None:
    found = percentile(sorted(values), percent)
    within = [value for value in values if value <= found]
    below = [value for value in values if value < found]
    assert len(below) * 100 < percent * len(values) <= len(within) * 100


def test_of_nothing_there_is_no_percentile() -> None:
    assert math.isnan(percentile([], 50))
    assert spread([math.nan]) is None


@given(path=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=60))
def test_both_header_blocks_say_the_same_to_a_decoder(path: str) -> None:
    decoder = Decoder()
    blocks = header_blocks(path, "somebody")
    first, later = (decoder.decode(block) for block in blocks)
    assert first == later == decoder.decode(blocks[1])
    assert dict(first)[":path"] == path
    assert sorted(decoder.decode(header_block(path))) == sorted(set(first) - {("user-agent", "somebody")})


@given(
    sizes=st.lists(st.integers(1, 40), max_size=60), messages=st.lists(st.binary(min_size=1, max_size=60), max_size=5)
)
def test_answers_are_found_however_they_are_cut(sizes: list[int], messages: list[bytes]) -> None:
    sent = b"".join(frame(DATA, 0, 1, framed_message(message)) for message in messages)
    sent += frame(PING, 0, 0, b"12345678") + frame(DATA, END_STREAM, 1, b"")
    content = b"".join(payload for kind, _, _, payload in frames_in(sent + b"\0\0\1") if kind == DATA)
    assert list(messages_in(content + b"\0\0")) == messages
    connection = Answers("test")
    ended, at = 0, 0
    for size in [*sizes, len(sent)]:
        if chunk := sent[at : at + size]:
            ended += connection.feed(chunk)
        at += size
    assert ended == 1
    assert connection.messages() == messages
    assert connection.replies == frame(PING, 1, 0, b"12345678")


def test_the_end_of_a_connection_is_no_answer() -> None:
    with pytest.raises(CallFailed, match="GOAWAY"):
        Answers("test").feed(frame(GOAWAY, 0, 0, struct.pack("!II", 0, 0)))
    with pytest.raises(CallFailed, match="closed"):
        Answers("test").feed(b"")


def test_an_answered_call_may_be_reset_without_an_error() -> None:
    """A server in Go answers before it has noticed that the request has ended, and then resets what is over."""
    answers = Answers("/a/B")
    assert answers.feed(frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x88") + frame(RST_STREAM, 0, 1, bytes(4))) == 1
    with pytest.raises(CallFailed, match="/a/B: RST_STREAM"):
        answers.feed(frame(RST_STREAM, 0, 3, struct.pack(">I", 8)))


def test_ways_are_compared_within_a_round() -> None:
    """The machine was twice as slow in the second round: by the medians of each way alone, the ratio would be 2.25."""
    case = Case("range", 1)
    samples = [
        *(Sample(case, GREENROOM, number, {"cpu_us": cpu}) for number, cpu in ((1, 30.0), (2, 60.0))),
        *(Sample(case, HAPROXY, number, {"cpu_us": cpu}) for number, cpu in ((1, 20.0), (2, 40.0), (3, 1.0))),
    ]
    assert ratio(samples, case, "cpu_us", GREENROOM, HAPROXY) == spread([1.5, 1.5])
    assert ratio(samples, case, "cpu_us", GREENROOM, GRPC_PROXY) is None


def test_a_missed_target_says_by_how_much() -> None:
    case = Case("put256", 16)
    samples = [
        Sample(case, way, 1, {"cpu_us": cpu}) for way, cpu in ((GREENROOM, 50.0), (HAPROXY, 20.0), (GRPC_PROXY, 125.0))
    ]
    judged = {one.target.under: one.in_words for one in judge(samples)}
    assert judged == {HAPROXY: "missed by 39 %", GRPC_PROXY: "met"}
    told = markdown({"machine": "one"}, {"rounds": 1, "seconds": 2, "warm_up_seconds": 0.1}, samples)
    assert "| put256 x 16 |        125 |    20.0 |      50.0 |                   0.40 |                2.50 |" in told

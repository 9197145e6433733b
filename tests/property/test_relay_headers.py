"""The relay's header decoder against the `hpack` library: same fields, or both refuse."""

import hpack
from hpack.exceptions import HPACKError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from greenroom.http2.frames import Fault
from greenroom.http2.header_blocks import Field, HeaderDecoder

NAMES = st.one_of(
    st.sampled_from([b":path", b":method", b"content-type", b"grpc-timeout", b"x-a", b""]), st.binary(max_size=40)
)
FIELDS = st.tuples(NAMES, st.one_of(st.sampled_from([b"", b"/a/B", b"POST", b"99999m"]), st.binary(max_size=300)))
BLOCKS = st.tuples(st.sampled_from([None, None, None, 0, 50, 200, 4_096]), st.lists(FIELDS, max_size=12), st.booleans())


def by_the_oracle(decoder: hpack.Decoder, block: bytes) -> list[Field] | None:
    try:
        return [(bytes(name), bytes(value)) for name, value in decoder.decode(block, raw=True)]
    except HPACKError:
        return None


def by_ours(decoder: HeaderDecoder, block: bytes) -> list[Field] | None:
    try:
        return decoder.decode(block)
    except Fault:
        return None


@settings(max_examples=120, deadline=None)
@given(st.lists(BLOCKS, max_size=12))
def test_what_an_encoder_writes_is_read_back(blocks: list[tuple[int | None, list[Field], bool]]) -> None:
    encoder, ours = hpack.Encoder(), HeaderDecoder(65_536)
    for table_bytes, fields, huffman in blocks:
        if table_bytes is not None:
            encoder.header_table_size = table_bytes
        assert ours.decode(encoder.encode(fields, huffman=huffman)) == fields


@settings(max_examples=500, deadline=None)
@given(st.lists(st.binary(max_size=60), min_size=1, max_size=4), st.lists(FIELDS, max_size=6))
@example([b"\x3f\xe2\x1f"], [])  # A table of 4,097 bytes, one more than was offered.
def test_arbitrary_bytes_mean_the_same_or_are_refused_by_both(blocks: list[bytes], fields: list[Field]) -> None:
    oracle, ours = hpack.Decoder(), HeaderDecoder(65_536)
    for block in [hpack.Encoder().encode(fields), *blocks]:
        expected = by_the_oracle(oracle, block)
        assert by_ours(ours, block) == expected
        if expected is None:
            return  # the connection is over


@settings(max_examples=250, deadline=None)
@given(st.lists(FIELDS, min_size=1, max_size=8), st.data())
def test_a_damaged_block_means_the_same_or_is_refused_by_both(fields: list[Field], data: st.DataObject) -> None:
    block = bytearray(hpack.Encoder().encode(fields))
    place = data.draw(st.integers(0, len(block) - 1))
    block[place] ^= 1 << data.draw(st.integers(0, 7))
    assert by_ours(HeaderDecoder(65_536), bytes(block)) == by_the_oracle(hpack.Decoder(), bytes(block))

"""The header decoder and encoder, by hand; against the `hpack` library in the property ring."""

import hpack
import pytest

from greenroom.http2.frames import Error, Fault
from greenroom.http2.header_blocks import HeaderDecoder, KnownFields, encode_fields, encode_trailers


def decoder(list_bytes: int = 65_536) -> HeaderDecoder:
    return HeaderDecoder(list_bytes)


def test_an_indexed_literal_is_remembered_and_a_plain_one_is_not() -> None:
    ours = decoder()
    assert ours.decode(b"\x40\x01a\x01b") == [(b"a", b"b")]
    assert ours.decode(b"\x00\x01c\x01d\x10\x01e\x01f") == [(b"c", b"d"), (b"e", b"f")]
    assert ours.changes == 1
    assert ours.decode(b"\xbe") == [(b"a", b"b")]


def test_the_youngest_entry_has_the_lowest_index() -> None:
    ours = decoder()
    ours.decode(b"\x40\x01a\x01b\x40\x01c\x01d")
    assert ours.decode(b"\xbe\xbf") == [(b"c", b"d"), (b"a", b"b")]


def test_a_table_size_update_evicts_the_oldest() -> None:
    ours = decoder()
    ours.decode(b"\x40\x01a\x01b\x40\x01c\x01d")  # 34 bytes each
    ours.decode(b"\x3f\x04")  # 35
    assert ours.decode(b"\xbe") == [(b"c", b"d")]
    with pytest.raises(Fault):
        ours.decode(b"\xbf")


def test_an_entry_too_many_evicts_the_oldest() -> None:
    ours = decoder()
    ours.decode(b"\x3f\x2a\x40\x01a\x01b\x40\x01c\x01d\x40\x01e\x01f")  # room for 73 bytes, 34 each
    assert ours.decode(b"\xbe\xbf") == [(b"e", b"f"), (b"c", b"d")]
    with pytest.raises(Fault):
        ours.decode(b"\xc0")


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (b"\x80", "index 0"),
        (b"\xbe", "an index beyond the tables"),
        (b"\xff\xff\xff\xff\xff\xff\xff\x01", "an endless number"),
        (b"\xff", "a number without its end"),
        (b"\x40\x05a", "a name longer than the block"),
        (b"\x40\x01a", "a name without a value"),
        (b"\x82\x20", "a size update inside a block"),
        (b"\x3f\xe2\x1f", "a table above the offered 4096"),
        (b"\x40\x01a\x84\xff\xff\xff\xff", "a Huffman string with the end mark"),
        (b"\x7f\x80\x80\x80\x80\x80\x80\x00", "an overlong number"),
    ],
)
def test_a_broken_block_is_a_compression_error(block: bytes, why: str) -> None:
    with pytest.raises(Fault) as caught:
        decoder().decode(block)
    assert caught.value.code is Error.COMPRESSION_ERROR, why


def test_a_short_block_cannot_stand_for_an_endless_list() -> None:
    ours = decoder(list_bytes=10_000)
    ours.decode(b"\x40\x01a\x7f\x81\x0f" + b"x" * 2_048)
    with pytest.raises(Fault) as caught:
        ours.decode(b"\xbe" * 5)
    assert caught.value.code is Error.ENHANCE_YOUR_CALM


def test_a_larger_table_may_be_used_once_it_was_offered() -> None:
    ours = decoder()
    ours.capacity_limit = 8_192
    assert ours.decode(b"\x3f\xe1\x3f\x82") == [(b":method", b"GET")]


@pytest.mark.parametrize("length", [0, 1, 126, 127, 128, 254, 255, 16_510, 70_000])
def test_encoded_fields_are_read_by_another_library(length: int) -> None:
    fields = [(b"name", b"v" * length), (b"n" * (length or 1), b"value")]
    theirs = hpack.Decoder(max_header_list_size=10**6)
    assert [tuple(map(bytes, field)) for field in theirs.decode(encode_fields(fields), raw=True)] == fields
    assert len(theirs.header_table.dynamic_entries) == 0


def test_trailers_carry_status_text_and_bytes() -> None:
    block = encode_trailers(5, "50% größer\n", [("X-Name", "va\nlue"), ("x-bin", b"\x00\xff\x01\x02")])
    fields = {bytes(name): bytes(value) for name, value in hpack.Decoder().decode(block, raw=True)}
    assert fields == {
        b"grpc-status": b"5",
        b"grpc-message": b"50%25 gr%C3%B6%C3%9Fer%0A",
        b"x-name": b"va?lue",
        b"x-bin": b"AP8BAg",
    }


def test_trailers_without_a_text_have_an_empty_one_as_etcds_do() -> None:
    assert hpack.Decoder().decode(encode_trailers(0, "", ())) == [("grpc-status", "0"), ("grpc-message", "")]


def test_a_list_just_within_the_bound_passes_however_many_fields_it_has() -> None:
    field = (b"a", b"b" * 99)
    assert len(decoder(132 * 20).decode(encode_fields([field] * 20))) == 20
    with pytest.raises(Fault) as caught:
        decoder(132 * 20 - 1).decode(encode_fields([field] * 20))
    assert caught.value.code is Error.ENHANCE_YOUR_CALM


def test_compressed_text_counts_by_its_own_length() -> None:
    """Huffman's code makes text shorter by up to three eighths."""
    block = hpack.Encoder().encode([(b"x", b"0" * 4_000)], huffman=True)
    assert len(block) < 2_700
    with pytest.raises(Fault):
        decoder(4_000).decode(bytes(block))


def test_fields_that_all_clients_send_are_kept_once() -> None:
    known = KnownFields()
    one, other = (b"te", b"trailers"), (b"te", bytes(bytearray(b"trailers")))
    assert known.same(one) is known.same(other) is one
    for own in ((b"token", b"t"), (b"authorization", b"t"), (b"user-agent", b"x" * 300)):
        assert known.same(own) is own
        assert known.same((own[0], bytes(bytearray(own[1])))) is not own


def test_fields_kept_once_are_bounded_and_the_oldest_is_forgotten() -> None:
    known = KnownFields()
    kept = [known.same((b":path", b"/%d" % number)) for number in range(1_025)]
    first, second = ((b":path", b"/%d" % number) for number in range(2))
    assert known.same(second) is kept[1]
    assert known.same(first) is first

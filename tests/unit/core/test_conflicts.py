"""Conflicts in words."""

from greenroom.core.configuration import Difference
from greenroom.core.conflicts import MAX_TOLD, Conflict, in_words, none_known
from greenroom.core.record import MAX_REASON_BYTES
from tests.support.instances import INSTANCE, K, held_record

BLOCKS = Difference("kv_cache_block_size", "64", "32")


def test_a_conflict_says_what_differs_and_from_whom() -> None:
    said = str(Conflict("tiny", INSTANCE, True, (BLOCKS,)))
    assert said == (
        f"model 'tiny' is not configured as that of {INSTANCE} (released): kv_cache_block_size is 64 here and 32 there"
    )
    assert f"{INSTANCE} (held)" in str(Conflict("tiny", INSTANCE, False, (BLOCKS,)))


def test_of_many_the_first_are_told() -> None:
    many = tuple(Difference(f"field{number}", "a", "b") for number in range(MAX_TOLD + 2))
    assert str(Conflict("tiny", INSTANCE, True, many)).endswith("field2 is a here and b there and 2 more")
    conflicts = [Conflict("m" * 1024, INSTANCE, True, (BLOCKS,))] * (MAX_TOLD + 1)
    assert in_words(conflicts).endswith("; and 1 more")
    assert len(in_words(conflicts)) <= MAX_REASON_BYTES
    assert in_words(()) == ""


def test_who_knows_nobody_is_in_none() -> None:
    assert none_known(held_record(K), {K}) == ()

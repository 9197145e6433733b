"""Random dialogues through the relay, with the `h2` library on both sides: each side hears what it would hear directly.

What would differ if a guarantee broke: a leak shows as a whole message at upstream that was not to pass; a window fault
shows as the strict peer's own error or as a dialogue that stands still; a header fault as another path or a close.
"""

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.support.h2_dialogue import Call, Dialogue, messages_in
from tests.support.h2_peers import FORWARD, STREAM, UNARY, UNKNOWN_PATH

# A seed does not shrink, and one dialogue takes a while: the first example that fails has to do.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
EDITED = {b"edit": lambda m: m.upper(), b"grow": lambda m: m + b"+++", b"shri": lambda m: m[:3]}
WORDS = [b"plain", b"hold", b"edit", b"bad", b""]
STREAM_WORDS = [b"plain", b"grow", b"edit", b"shrink", b""]


def what_passes(path: bytes, message: bytes) -> bytes:
    """What upstream is to get of a message."""
    change = EDITED.get(message[:4]) if path != FORWARD else None
    if change is None or (path == UNARY and message[:4] != b"edit"):
        return message
    return change(message)


def long(words: list[bytes]) -> st.SearchStrategy[bytes]:
    return st.builds(
        lambda word, size: word.ljust(size, b"x") if word else word,
        st.sampled_from(words),
        st.sampled_from((0, 0, 0, 3, 200)),
    )


unary = st.builds(
    Call,
    st.sampled_from([UNARY, UNARY, UNARY, FORWARD, UNKNOWN_PATH]),
    st.lists(long(WORDS), min_size=1, max_size=1),
    st.sampled_from((0, 1, 100, 500)),
    st.sampled_from((False, False, False, True)),
)
streamed = st.builds(
    Call,
    st.sampled_from([STREAM, STREAM, FORWARD]),
    st.lists(long(STREAM_WORDS), min_size=0, max_size=5),
    st.sampled_from((0, 1, 100)),
    st.sampled_from((False, False, False, True)),
)


@settings(max_examples=40, deadline=None, phases=PHASES)
@given(
    seed=st.integers(0, 2**32),
    calls=st.lists(st.one_of(unary, unary, streamed), min_size=1, max_size=12),
    client_window=st.sampled_from((10, 20, 100, 65_535, 200_000)),
    upstream_window=st.sampled_from((20, 50, 200, 65_535, 200_000)),
)
def test_each_side_hears_what_it_would_hear_directly(
    seed: int, calls: list[Call], client_window: int, upstream_window: int
) -> None:
    check(Dialogue(seed, calls, client_window, upstream_window))


@settings(max_examples=12, deadline=None, phases=PHASES)
@given(
    seed=st.integers(0, 2**32),
    calls=st.lists(unary, min_size=1, max_size=12),
    response_bytes=st.lists(st.sampled_from((5_000, 20_000, 70_000)), min_size=12, max_size=12),
    message_bytes=st.sampled_from((0, 17_000, 70_000)),
)
def test_large_messages_share_the_connection_window(
    seed: int, calls: list[Call], response_bytes: list[int], message_bytes: int
) -> None:
    """Here the connection's window binds, so answers of the relay and of upstream take it from each other."""
    for call, size in zip(calls, response_bytes, strict=False):
        call.response_bytes = size
        call.messages = [message.ljust(message_bytes, b"y") if message else message for message in call.messages]
    check(Dialogue(seed, calls, 200_000, 100_000))


def check(dialogue: Dialogue) -> None:
    assert dialogue.run() is None
    for stream_id, call in dialogue.calls.items():
        check_upstream_got_what_was_decided(dialogue, stream_id, call)
        if not call.cancelled:
            check_client_got_its_answer(dialogue, stream_id, call)
    check_windows_agree(dialogue)


def must_not_pass(call: Call) -> bool:
    return call.path == UNKNOWN_PATH or (call.path == UNARY and call.messages[0].startswith((b"hold", b"bad")))


def is_bad(call: Call) -> bool:
    return call.path == UNARY and call.messages[0].startswith(b"bad")


def was_edited_late(dialogue: Dialogue, stream_id: int) -> bool:
    """An edit of bytes that had left becomes a hand-over."""
    return dialogue.handed_over.get(stream_id, b"").startswith(b"edit")


def check_upstream_got_what_was_decided(dialogue: Dialogue, stream_id: int, call: Call) -> None:
    heard = dialogue.upstream.stream(stream_id)
    got = messages_in(bytes(heard.content))
    if must_not_pass(call) or was_edited_late(dialogue, stream_id):
        assert got == [], "upstream got a message that was not to pass"
        return
    wanted = [what_passes(call.path, message) for message in call.messages]
    assert got == (wanted[: len(got)] if call.cancelled else wanted)
    assert call.cancelled or heard.path == call.path


def check_client_got_its_answer(dialogue: Dialogue, stream_id: int, call: Call) -> None:
    heard = dialogue.client.stream(stream_id)
    assert heard.ended
    got = [message.rstrip(b".") for message in messages_in(bytes(heard.content))]
    if call.path == UNKNOWN_PATH or is_bad(call):
        assert (got, heard.status) == ([], b"12" if call.path == UNKNOWN_PATH else b"3")
    elif stream_id in dialogue.handed_over:
        assert (got, heard.status) == ([b"ours:" + call.messages[0]], b"0")
    else:
        assert (got, heard.status) == ([b"re:" + what_passes(call.path, m) for m in call.messages], b"0")


def check_windows_agree(dialogue: Dialogue) -> None:
    """At rest, each peer believes what the relay's books say."""
    books = dialogue.core._dialogue
    client, upstream = dialogue.client.connection, dialogue.upstream.connection
    assert not books.down.waiting
    assert not books.up.waiting
    assert client.inbound_flow_control_window == books.down.left
    assert upstream.outbound_flow_control_window == books.down.left + books.down.debit
    assert upstream.inbound_flow_control_window == books.up.left
    assert client.outbound_flow_control_window == books.up.left + books.up.debit
    assert dialogue.core.open_streams == 0
    bounds = books.bounds
    assert (bounds.copies.used, bounds.handlers.used, bounds.unsent.used, books.undecided) == (0, 0, 0, 0)
    assert (books.up._bound.used, books.down._bound.used, books.up.holds) == (0, 0, False)

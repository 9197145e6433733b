"""Every quantity that a peer can make grow has a bound here, with its reason.

A bound that one call can exceed ends that call (RESOURCE_EXHAUSTED); one that only a broken or hostile peer
exceeds ends the connection (GOAWAY, ENHANCE_YOUR_CALM).
"""

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one connection, then those of the process. Sizes in bytes, times in seconds."""

    # A request block of a real client has about 200 bytes; tokens and tracing may add some KiB.
    header_block_bytes: int = 64 * KIB
    header_block_frames: int = 64
    # Counted as RFC 7541 does: names, values and 32 a field. A short block can refer to a long field many times.
    header_list_bytes: int = 64 * KIB
    # etcd itself takes 1.5 MiB by default and names that limit in its answer, so ours has to be above it.
    message_bytes: int = 4 * MIB
    # A Watch request is a key, a range end and a few flags.
    stream_message_bytes: int = 32 * KIB
    # Inspected messages that have not come whole yet, and those that a handler is at work on.
    copied_bytes: int = 64 * MIB
    # Calls that have a head but no whole message yet, and how long they may stay so.
    undecided_streams: int = 2_000
    undecided_seconds: float = 60.0
    # Streams open at once. etcd names no limit, and clients put all their watches on one stream.
    streams: int = 10_000
    # Request heads of more than a KiB, which carry long tokens, are kept as long as their streams.
    large_head_bytes: int = 8 * MIB
    # Handlers for one client, and how many of them are at work: the others wait, for each may have to do with answers
    # of a MiB, in several forms. And answers that its windows do not let out.
    handlers: int = 512
    handlers_at_work: int = 16
    unsent_answer_bytes: int = 32 * MIB
    # DATA that its sender was allowed to send but its receiver has no window for, because the relay used it.
    waiting_bytes: int = 64 * MIB
    # Clients end a call with one empty DATA frame; those that end nothing have no use.
    empty_data_frames_per_second: int = 1_000
    # PING, SETTINGS, PRIORITY, unknown frames, ends of streams that are over already. A Go client sends a PING for each
    # answer on a fast network.
    control_frames_per_second: int = 10_000
    # One or two come with each answer, so this is several times as many calls as one process relays.
    window_updates_per_second: int = 100_000
    # A client that cancels most of what it starts makes work for nothing (rapid reset). Once a stream had an answer its
    # reset costs no more than a call: it is how gRPC clients end a Watch or a LeaseKeepAlive.
    spare_resets: int = 200
    resets_per_answered_call: int = 2
    unacknowledged_settings: int = 100
    # Upstream's liveness: silent that long with open streams, it is asked, and must answer within the second time.
    upstream_silence_seconds: float = 10.0
    upstream_ping_seconds: float = 5.0
    # etcd takes a PING every 5 s and ends the connection of a client that sends more; a little above, for jitter.
    ping_spacing_seconds: float = 5.2
    # A real client says who it is in its first packet; one that says nothing holds two sockets.
    preface_seconds: float = 20.0
    # One upstream address is tried that long before the next one.
    dial_seconds: float = 3.0
    # A client whose socket takes nothing for that long is given up.
    client_stall_seconds: float = 300.0
    # How long the last bytes may take to leave a socket that is being closed.
    close_seconds: float = 5.0

    # Of the process: file descriptors (two a connection) and memory.
    connections: int = 10_000
    process_copied_bytes: int = 256 * MIB
    process_unsent_answer_bytes: int = 256 * MIB
    process_handlers: int = 4_096
    # As many as one processor has use for, and how long one counts as at work: who is not done by then waits for
    # somebody else, and must not keep others from it.
    process_handlers_at_work: int = 128
    handler_turn_seconds: float = 10.0
    process_large_head_bytes: int = 64 * MIB
    # Beside the few that each connection may have in any case.
    process_streams: int = 100_000


class Bound:
    """A quantity with an upper bound, counted in a wider one too if there is one.

    Of the wider one a part gets more only while it would not hold more than is left for all others: a few that take
    whatever they can get leave room for everybody, and the greediest is the first to get nothing more.
    """

    __slots__ = ("_limit", "_wider", "used")

    def __init__(self, limit: int, wider: "Bound | None" = None) -> None:
        self._limit = limit
        self._wider = wider
        self.used = 0

    @property
    def left(self) -> int:
        return self._limit - self.used

    def take(self, amount: int) -> bool:
        """Count `amount` in; False, and nothing counted, if that goes beyond a bound."""
        used, wider = self.used + amount, self._wider
        if used > self._limit:
            return False
        if wider is not None and (used > wider.left or not wider.take(amount)):
            return False
        self.used = used
        return True

    def give_back(self, amount: int) -> None:
        assert amount <= self.used
        self.used -= amount
        if self._wider is not None:
            self._wider.give_back(amount)

    def give_all_back(self) -> None:
        self.give_back(self.used)


class Totals:
    """The process-wide bounds that all connections share."""

    __slots__ = ("copied_bytes", "handlers", "large_head_bytes", "streams", "unsent_answer_bytes")

    def __init__(self, limits: Limits) -> None:
        self.copied_bytes = Bound(limits.process_copied_bytes)
        self.handlers = Bound(limits.process_handlers)
        self.unsent_answer_bytes = Bound(limits.process_unsent_answer_bytes)
        self.large_head_bytes = Bound(limits.process_large_head_bytes)
        self.streams = Bound(limits.process_streams)


class Bounds:
    """What one connection holds of the process: `end` gives all of it back."""

    __slots__ = ("copies", "handlers", "heads", "streams", "unsent")

    def __init__(self, limits: Limits, totals: Totals) -> None:
        self.copies = Bound(limits.copied_bytes, totals.copied_bytes)
        self.handlers = Bound(limits.handlers, totals.handlers)
        self.unsent = Bound(limits.unsent_answer_bytes, totals.unsent_answer_bytes)
        self.heads = Bound(limits.large_head_bytes, totals.large_head_bytes)
        self.streams = Bound(limits.streams, totals.streams)

    def end(self) -> None:
        for bound in (self.copies, self.handlers, self.unsent, self.heads, self.streams):
            bound.give_all_back()


class Rates:
    """What a client sent in the second at hand; each second begins with the first bytes that come after the last one.

    Plain numbers, for each of these frames counts itself and looks at its bound.
    """

    __slots__ = ("control_frames", "empty_data_frames", "until", "window_updates")

    def __init__(self) -> None:
        self.begin(float("-inf"))

    def begin(self, now: float) -> None:
        """Count anew from `now` (seconds)."""
        self.until = now + 1.0
        self.control_frames = self.empty_data_frames = self.window_updates = 0

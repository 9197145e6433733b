"""What is remembered of one stream."""

from greenroom.relay.calls import Kind
from greenroom.relay.heads import RequestHead
from greenroom.relay.settings import Announced
from greenroom.relay.streams import Phase, Stream


def test_a_streams_room_follows_what_the_client_announces() -> None:
    head = RequestHead.of(((b":path", b"/a/B"),), lambda _: Kind.FORWARD)
    stream = Stream(1, head, Phase.PASS, 0.0)
    announced = Announced(limit=5)
    stream.allowance += 10 - 70_000
    assert stream.room(announced) == 65_535 + 10 - 70_000
    announced.announce([(4, 100_000)])
    assert stream.room(announced) < 0
    announced.acknowledge()
    assert stream.room(announced) == 30_010

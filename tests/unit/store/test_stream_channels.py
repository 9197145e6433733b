"""gRPC's channels for streams: replaced when files change, closed with their last stream."""

from pathlib import Path

import grpc
import pytest

from greenroom.store.channels import CHANNEL_OPTIONS
from greenroom.store.stream_channels import StreamChannels
from greenroom.tls.contexts import load_upstream
from greenroom.tls.reloading import Reloaded
from greenroom.tls.sides import UpstreamSide
from tests.support.certificates import Authority
from tests.support.control_side import EventLog

SHUTDOWN = grpc.ChannelConnectivity.SHUTDOWN


async def test_in_plaintext_there_is_one() -> None:
    channels = StreamChannels("ipv4:127.0.0.1:1", CHANNEL_OPTIONS, None)
    async with channels.use() as one, channels.use() as other:
        assert one is other
    await channels.close()
    assert one.get_state() is SHUTDOWN


class Rotated:
    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        files = self.authority.issue().files
        self.side = UpstreamSide(Reloaded("upstream", files, load_upstream, log=EventLog()))

    def rotate(self) -> None:
        self.authority.issue()
        for _ in range(2):
            self.side.reloaded.look()


@pytest.fixture
def rotated(tmp_path: Path) -> Rotated:
    return Rotated(tmp_path)


async def test_new_streams_go_with_new_files_and_old_ones_stay(rotated: Rotated) -> None:
    channels = StreamChannels("ipv4:127.0.0.1:1", CHANNEL_OPTIONS, rotated.side)
    async with channels.use() as old:
        rotated.rotate()
        async with channels.use() as new:
            assert new is not old
        assert old.get_state() is not SHUTDOWN
    assert old.get_state() is SHUTDOWN
    assert new.get_state() is not SHUTDOWN
    await channels.close()
    assert new.get_state() is SHUTDOWN


async def test_all_end_with_the_client(rotated: Rotated) -> None:
    channels = StreamChannels("ipv4:127.0.0.1:1", CHANNEL_OPTIONS, rotated.side)
    async with channels.use() as old:
        rotated.rotate()
        async with channels.use() as new:
            await channels.close()
            assert (old.get_state(), new.get_state()) == (SHUTDOWN, SHUTDOWN)

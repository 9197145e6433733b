"""A LeaseKeepAlive stream through a preview: one to one, as the client sends it.

The rule: nobody keeps a lease alive but its owner. A keepalive of our own would let a dead client's keys live on.
"""

from greenroom.pb.etcd import rpc_pb2
from greenroom.preview.requests import parsed
from greenroom.preview.streams import CleanEnd, Closing, Context, ended_by_etcd, messages, until_one_ends
from greenroom.store.upstream import ClientCalls, KeepAliveStream


class KeepAliveCall:
    """One stream; `run` serves it until it ends, by an error that says why."""

    def __init__(self, client: ClientCalls, context: Context) -> None:
        self._client, self._context = client, context
        self._is_half_closed = False

    async def run(self, closing: Closing) -> None:
        """GreenroomError, or AioRpcError as etcd gave it. Returns where etcd ends what the client has half-closed."""
        async with self._client.keep_alive() as upstream:
            await until_one_ends(self._requests(upstream), self._answers(upstream), closing.raises())

    async def _requests(self, upstream: KeepAliveStream) -> None:
        async for data in messages(self._context):
            await upstream.write(parsed(rpc_pb2.LeaseKeepAliveRequest, data))
        self._is_half_closed = True
        await upstream.done_writing()

    async def _answers(self, upstream: KeepAliveStream) -> None:
        while (answer := await upstream.read()) is not None:
            await self._context.write(answer.SerializeToString())
        raise CleanEnd if self._is_half_closed else ended_by_etcd()

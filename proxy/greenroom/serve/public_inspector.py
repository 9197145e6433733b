"""What is different on a port that shows what is public and nothing else.

The rule: gated keys mean their public selves there. They are read, compared and deleted as etcd has them, whatever is
held; and nothing can be registered, for what the answer to that says would tell what is held.
"""

from typing import Final

from greenroom.core.ranges import Leaf
from greenroom.errors import PublicPortOnly
from greenroom.pb.etcd import rpc_pb2
from greenroom.relay.calls import Kind
from greenroom.serve.inspector import EtcdInspector

_SNAPSHOT: Final = b"/etcdserverpb.Maintenance/Snapshot"
"""All of etcd's keys in one answer, with those that are held."""


class PublicInspector(EtcdInspector):
    """The relay's Inspector for a port without held keys."""

    def kind(self, path: bytes) -> Kind:
        """As of any port; a snapshot is none of this one's calls."""
        return Kind.REFUSE if path == _SNAPSHOT else super().kind(path)

    def _is_gated(self, leaf: Leaf) -> bool:
        """Never: what there is to be seen is etcd's own answer."""
        if isinstance(leaf, rpc_pb2.PutRequest) and leaf.key.startswith(self._prefixes):
            raise PublicPortOnly(
                f"key {leaf.key!r} is gated, and this port shows what is public only: "
                "workers register through the proxy's other port"
            )
        return False

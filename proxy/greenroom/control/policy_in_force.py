"""What can be asked about the policy in force: the control API's message, and the short form of `/ready`."""

from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format

from greenroom.pb.control.v1 import control_pb2
from greenroom.policy_file import policy_text
from greenroom.policy_source import PolicySource
from greenroom.store.presence import Presence

NAME = "policy"


@dataclass(frozen=True, slots=True)
class PolicyInForce:
    """This proxy's policy, beside what the others say of theirs."""

    source: PolicySource
    presence: Presence

    def message(self) -> control_pb2.Policy:
        """All of it."""
        message = self._without_text()
        message.text = policy_text(self.source.current)
        return message

    def told(self) -> dict[str, Any]:
        """The same without the policy's text, by the field names of the message; times as RFC 3339 text."""
        fields: dict[str, Any] = json_format.MessageToDict(
            self._without_text(), preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        return {name: value for name, value in fields.items() if name not in ("name", "text")}

    def _without_text(self) -> control_pb2.Policy:
        source = self.source
        message = control_pb2.Policy(name=NAME, digest=source.current.digest, file=source.file)
        message.load_time.FromDatetime(source.loaded)
        if source.refused is not None:
            message.refusal.reason = source.refused.why
            message.refusal.time.FromDatetime(source.refused.time)
        for proxy, peer in sorted(self.presence.peers.items()):
            message.peers.add(
                proxy=proxy,
                address=peer.address,
                host=peer.host,
                digest=peer.policy,
                differs=proxy in self.presence.differing,
            )
        return message

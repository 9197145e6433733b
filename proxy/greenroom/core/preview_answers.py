"""What Put, DeleteRange and Txn through a preview say of keys as they were: of one instance alone, nothing of others.

The rule: a Range hides what lies on another's lease, so no other answer shows it. That such a key is there can be told
from a compare all the same, for whoever creates a key has to know whether it is.
"""

from collections.abc import Iterable, Iterator
from typing import TypeVar, assert_never

from greenroom.core.preview import View
from greenroom.pb.etcd import rpc_pb2

Part = rpc_pb2.RangeResponse | rpc_pb2.PutResponse | rpc_pb2.DeleteRangeResponse
Answer = Part | rpc_pb2.TxnResponse
AnswerT = TypeVar("AnswerT", bound=Answer)


def without_others(answer: AnswerT, view: View) -> AnswerT:
    """The answer as the client sees it; changed in place. A Range in a Txn is of one key, so its count is 0 or 1."""
    if view.only:
        for part in _parts([answer]):
            _hide(part, view)
    return answer


def _parts(answers: Iterable[Answer]) -> Iterator[Part]:
    for answer in answers:
        if isinstance(answer, rpc_pb2.TxnResponse):
            given = ((response, response.WhichOneof("response")) for response in answer.responses)
            yield from _parts(getattr(response, name) for response, name in given if name)
        else:
            yield answer


def _hide(part: Part, view: View) -> None:
    match part:
        case rpc_pb2.RangeResponse():
            shown = [kv for kv in part.kvs if view.shows_public(kv)]
            part.count -= len(part.kvs) - len(shown)
            del part.kvs[:]
            part.kvs.extend(shown)
        case rpc_pb2.PutResponse():
            if not view.shows_public(part.prev_kv):
                part.ClearField("prev_kv")
        case rpc_pb2.DeleteRangeResponse():
            before = [kv for kv in part.prev_kvs if view.shows_public(kv)]
            del part.prev_kvs[:]
            part.prev_kvs.extend(before)
        case _:
            assert_never(part)

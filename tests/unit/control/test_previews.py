"""The control API's previews, as far as they need no etcd. The rest: tests/integration/test_preview.py."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from greenroom.access.known import Presented
from greenroom.control.previews import preview_message
from greenroom.control.requests import new_preview, preview_of
from greenroom.core.keyspace import InstanceId
from greenroom.core.selectors import Selector
from greenroom.errors import InvalidRequest, NotPermitted
from greenroom.pb.control.v1 import control_pb2 as pb
from greenroom.preview.previews import NewPreview, Preview
from tests.support.callers import admission, bearer
from tests.support.mirroring import ONE, fed_follower, held
from tests.unit.control.test_service import service_of

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def asked(seconds: int = 0, **fields: Any) -> pb.OpenPreviewRequest:
    preview = pb.Preview(**{"actor": "ann", **fields})
    if seconds:
        preview.ttl.FromSeconds(seconds)
    return pb.OpenPreviewRequest(preview=preview)


def test_what_is_asked_for() -> None:
    one = new_preview(asked(60, instance="instances/abc", only=True))
    assert one == NewPreview("ann", 60.0, instance=InstanceId("abc"), only=True)
    assert new_preview(asked(selector=pb.Selector(model="x"))) == NewPreview(
        "ann", 3600.0, selector=Selector(model="x")
    )
    assert preview_of("previews/abc") == "abc"


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (asked(actor=""), "preview.actor: is required"),
        (asked(name="previews/x"), "are the proxy's to set"),
        (asked(address="127.0.0.1:1"), "are the proxy's to set"),
        (asked(only=True), "preview.only: is for a preview of one instance"),
        (asked(instance="instances/abc", selector=pb.Selector()), "give one of the two"),
        (asked(instance="abc"), "preview.instance: 'abc' is not of the form 'instances/{id}'"),
        (asked(instance="instances/ABC"), "preview.instance: 'instances/ABC' names no instance"),
        (asked(-1), "preview.ttl: must be at most 86400 s"),
        (asked(86401), "preview.ttl: must be at most 86400 s"),
    ],
)
def test_mistakes_are_named_with_their_field(request_: pb.OpenPreviewRequest, words: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        new_preview(request_)
    assert words in str(raised.value)


def test_how_one_is_shown() -> None:
    shows = NewPreview("ann", 60.0, instance=ONE, only=True)
    message = preview_message(Preview("abc", shows, "127.0.0.1:9", NOW, NOW + timedelta(minutes=1)))
    assert (message.name, message.instance, message.only) == ("previews/abc", f"instances/{ONE}", True)
    assert (message.address, message.actor, message.ttl.seconds) == ("127.0.0.1:9", "ann", 60)
    assert message.expire_time.seconds - message.create_time.seconds == 60
    standing = preview_message(Preview("standing", NewPreview("", 0.0, selector=Selector()), "a:1", NOW, None))
    assert not any(map(standing.HasField, ("ttl", "expire_time", "selector")))


async def test_what_shows_more_than_one_instance_is_an_operators() -> None:
    previews = service_of(fed_follower(held(ONE))).previews
    with admission().call("OpenPreview", Presented(bearer("ci"), None, "peer")) as admitted:
        request = admitted.authorised(asked(actor=""))
        with pytest.raises(NotPermitted, match="ci is a reporter: a preview of more than one instance needs the role"):
            await previews.open(request)

"""The control API's previews: who may open, see and close which, and what is answered of them.

The rule: a preview is a way around the hold. One of an instance is for those whose business the instance is; one of
many instances is an operator's.
"""

from datetime import timedelta

from google.protobuf.duration_pb2 import Duration

from greenroom.access.admission import acting_name, check_acting, check_acting_operator
from greenroom.control.requests import new_preview, preview_of
from greenroom.control.views import INSTANCES, PREVIEWS, selector_message, timestamp
from greenroom.core.record import State
from greenroom.errors import NotPermitted, UnknownInstance, WrongState
from greenroom.pb.control.v1 import control_pb2
from greenroom.preview.previews import NewPreview, Preview, Previews
from greenroom.store.fenced import DEADLINE_SECONDS, read_snapshot
from greenroom.store.mirror import Mirror
from greenroom.store.upstream import Upstream


class PreviewCalls:
    """One method for each call, as functions of a message."""

    def __init__(self, upstream: Upstream, mirror: Mirror, previews: Previews) -> None:
        self._upstream, self._mirror, self._previews = upstream, mirror, previews

    async def open(self, request: control_pb2.OpenPreviewRequest) -> control_pb2.Preview:
        """Listens on a port of its own from here on."""
        wanted = new_preview(request)
        if wanted.instance is None:
            check_acting_operator("a preview of more than one instance")
        else:
            wanted = await self._of_instance(wanted)
        return preview_message(await self._previews.open(wanted))

    async def list(self, _: control_pb2.ListPreviewsRequest) -> control_pb2.ListPreviewsResponse:
        """Those that are open here and the caller may see."""
        seen = [preview_message(preview) for preview in self._previews if self._may_see(preview)]
        return control_pb2.ListPreviewsResponse(previews=seen)

    async def get(self, request: control_pb2.GetPreviewRequest) -> control_pb2.Preview:
        """One of them."""
        return preview_message(self._found(request.name))

    async def close(self, request: control_pb2.ClosePreviewRequest) -> control_pb2.ClosePreviewResponse:
        """Ends its clients' streams; its port is free again."""
        preview = await self._previews.close(self._found(request.name).preview_id, by=acting_name())
        return control_pb2.ClosePreviewResponse(preview=preview_message(preview))

    async def _of_instance(self, wanted: NewPreview) -> NewPreview:
        """The same, of an instance that there is, is the caller's business, and has something to be checked."""
        assert wanted.instance is not None, "one of no instance is asked for otherwise"
        snapshot = await read_snapshot(self._upstream, wanted.instance, (), timeout_seconds=DEADLINE_SECONDS)
        record = snapshot.record
        if record is None:
            raise UnknownInstance(
                f"no instance {wanted.instance}: it never registered through a proxy, or its lease ended",
                instance=wanted.instance,
            )
        check_acting(wanted.instance, record)
        if record.state is State.RELEASED and not snapshot.shadows:
            raise WrongState(
                f"{wanted.instance} is released and has nothing held: everybody sees all of it", state=record.state
            )
        return wanted.of_record(snapshot.record_revision)

    def _found(self, name: str) -> Preview:
        preview = self._previews.get(preview_of(name))
        self._check(preview)
        return preview

    def _may_see(self, preview: Preview) -> bool:
        try:
            self._check(preview)
        except NotPermitted:
            return False
        return True

    def _check(self, preview: Preview) -> None:
        """NotPermitted for a reporter who could not have opened it. Of an instance that is gone, nothing is asked."""
        if preview.shows.instance is None:
            check_acting_operator("a preview of more than one instance")
        elif (mirrored := self._mirror.instance(preview.shows.instance)) is not None:
            check_acting(mirrored.instance, mirrored.record)
        else:
            check_acting_operator("a preview of an instance that is not known at the moment")


def preview_message(preview: Preview) -> control_pb2.Preview:
    """One preview."""
    shows = preview.shows
    message = control_pb2.Preview(
        name=f"{PREVIEWS}{preview.preview_id}",
        instance=f"{INSTANCES}{shows.instance}" if shows.instance else "",
        only=shows.only,
        address=preview.address,
        create_time=timestamp(preview.created),
        expire_time=timestamp(preview.expires),
        actor=shows.actor,
    )
    if shows.selector is not None and (selector := selector_message(shows.selector)) is not None:
        message.selector.CopyFrom(selector)
    if preview.expires is not None:
        ttl = Duration()
        ttl.FromTimedelta(timedelta(seconds=shows.ttl_seconds))
        message.ttl.CopyFrom(ttl)
    return message

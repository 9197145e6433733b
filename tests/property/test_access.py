"""Access, whatever the file says: nobody reports for a gate that no glob of his matches, nor under another's name.

The second opinion on globs is a matcher of this file's own, which knows `*` and `?` and nothing else.
"""

from functools import cache

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from greenroom.access.authorise import authorise, check_instance, gates_of
from greenroom.access.callers import Caller, InstanceSelector
from greenroom.access.roles import METHODS, Role
from greenroom.core.keyspace import InstanceId
from greenroom.errors import NotPermitted
from greenroom.pb.control.v1 import control_pb2 as pb
from tests.support.registering import held_record

SERVICE = pb.DESCRIPTOR.services_by_name["Control"]
UNNAMED = {"LiftRolloutHold", "RenewClaim", "ReleaseClaim", "ListPreviews", "GetPreview", "ClosePreview"}
"""Methods whose requests have no field for who asks. What they end is gone, and the log says by whom; a claim is known
by its lease.
"""
ONE = InstanceId("1a2b")
NAMES = ("ci", "ann", "greenroom-ci")
gate_names = st.text("ab-", min_size=0, max_size=4)
globs = st.text("ab-*?", min_size=1, max_size=4)
attributes = st.text("ab", min_size=1, max_size=3)
selectors = st.builds(
    InstanceSelector,
    namespace=st.sampled_from((None, "dynamo", "dyn*", "other")),
    component=st.sampled_from((None, "back???", "prefill")),
    model=st.none() | globs,
)
callers = st.builds(
    Caller,
    st.sampled_from(NAMES),
    st.sampled_from(Role),
    st.lists(globs, min_size=1, max_size=3).map(tuple),
    st.none() | selectors,
)
reporters = st.builds(Caller, st.sampled_from(NAMES), st.just(Role.REPORTER), st.just(("*",)), selectors)


@cache
def matches(text: str, glob: str) -> bool:
    if not glob:
        return not text
    if glob[0] == "*":
        return matches(text, glob[1:]) or (bool(text) and matches(text[1:], glob))
    return bool(text) and glob[0] in ("?", text[0]) and matches(text[1:], glob[1:])


def permitted(caller: Caller, method: str, request: Message) -> Message | None:
    try:
        return authorise(caller, method, request)
    except NotPermitted:
        return None


@given(callers, gate_names, gate_names, st.sampled_from(("", *NAMES)))
def test_nobody_reports_for_a_gate_that_he_may_not_nor_as_another(
    caller: Caller, gate: str, named: str, reporter: str
) -> None:
    """The gate of the field, and one in the name: whichever the service goes by, it was one that he may."""
    name = f"instances/{ONE}" + (f"/gates/{named}/claim" if named else "")
    request = pb.ReportVerdictRequest(name=name, gate=gate, attempt=1, outcome=pb.OUTCOME_PASSED, reporter=reporter)
    goes_on = permitted(caller, "ReportVerdict", request)
    asked = [one for one in (gate, named) if one] or [""]
    may_gates = caller.role is Role.OPERATOR or all(any(matches(one, glob) for glob in caller.gates) for one in asked)
    may = caller.role is not Role.VIEWER and may_gates and reporter in ("", caller.name)
    assert (goes_on is not None) == may
    if goes_on is not None:
        assert isinstance(goes_on, pb.ReportVerdictRequest)
        assert goes_on.reporter == caller.name
        assert (goes_on.name, goes_on.gate, goes_on.outcome) == (request.name, request.gate, request.outcome)
        assert gates_of(goes_on) == gates_of(request)


@given(reporters | callers, attributes, st.booleans())
def test_nobody_reports_on_an_instance_that_he_may_not(caller: Caller, model: str, is_readable: bool) -> None:
    record = held_record(ONE, model=model)
    if not is_readable:
        cards = tuple(card.model_copy(update={"model": None}) for card in record.cards)
        record = record.model_copy(update={"cards": cards})
    known = {"namespace": "dynamo", "component": "backend", "endpoint": "generate"}
    known.update({"model": model} if is_readable else {})
    asked = caller.selector.model_dump(exclude_none=True) if caller.selector else {}
    may = all(name in known and matches(known[name], glob) for name, glob in asked.items())
    try:
        check_instance(caller, ONE, record)
    except NotPermitted:
        assert caller.role is Role.REPORTER
        assert not may
    else:
        assert caller.role is not Role.REPORTER or may


@given(callers, st.sampled_from([*METHODS, "DeleteEverything"]))
def test_no_method_is_open_to_a_role_that_is_too_little(caller: Caller, method: str) -> None:
    declared = {one.name: one for one in SERVICE.methods}
    request = declared[method].input_type._concrete_class() if method in declared else pb.GetInstanceRequest()
    everywhere = Caller(caller.name, caller.role)
    least = METHODS.get(method)
    assert (permitted(everywhere, method, request) is not None) == (least is not None and caller.role.covers(least))


@pytest.mark.parametrize("method", [one.name for one in SERVICE.methods])
def test_every_request_that_says_who_asks_goes_on_with_the_callers_name(method: str) -> None:
    """Also those of methods that are yet to come: their fields are found by name, wherever they stand."""
    if METHODS[method] is Role.VIEWER or method in UNNAMED:
        return
    request = next(one for one in SERVICE.methods if one.name == method).input_type._concrete_class()
    for field in request.DESCRIPTOR.fields:
        if field.message_type is not None and not field.is_repeated:
            getattr(request, field.name).SetInParent()
    goes_on = authorise(Caller("ann", Role.OPERATOR), method, request)
    assert "ann" in str(goes_on)

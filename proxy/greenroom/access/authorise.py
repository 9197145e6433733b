"""Whether a caller may do what a request asks for. Pure: neither a call's context nor the instance is known here.

The rules:

* A method needs a role, and one that stands in no table needs more than anybody has.
* A reporter has gates. The gate is the request's own, or part of the name that it gives.
* Whoever is known is known by one name: it stands in the request when it goes on, and a request that says another is
  refused.
* A reporter may have a selector. Only the record that a plan is made from says whether it matches, so that is asked
  there (`check_instance`), under the plan's fence.
"""

from itertools import pairwise
from typing import Final, TypeVar

from google.protobuf.message import Message

from greenroom.access.callers import ANYBODY, Caller
from greenroom.access.refusals import Refusal
from greenroom.access.roles import METHODS, WITHOUT_GATES, Role
from greenroom.core.keyspace import InstanceId
from greenroom.core.record import Record
from greenroom.errors import NotPermitted

IDENTITY_FIELDS: Final = ("actor", "reporter")
"""Fields that say who makes the call, in a request or in a message that it has."""
RUNNER: Final = "runner"
"""Who runs a gate. Many runners can share one name: what follows it after a `/` is theirs."""
_GATES: Final = "gates"

MessageT = TypeVar("MessageT", bound=Message)


def check_role(caller: Caller, method: str) -> None:
    """NotPermitted where the caller's role is not enough for the method, or nothing is known of it."""
    least = METHODS.get(method)
    if least is None:
        raise NotPermitted(f"{method} is open to nobody", cause=Refusal.METHOD, caller=caller.name)
    if not caller.role.covers(least):
        raise NotPermitted(
            f"{caller.name} is a {caller.role}: {method} needs the role {least}",
            cause=Refusal.ROLE,
            caller=caller.name,
            role=caller.role,
            needed_role=least,
        )


def authorise(caller: Caller, method: str, request: MessageT) -> MessageT:
    """The request as it goes on, with the caller's name in it; NotPermitted where the caller may not ask for it.

    The request that is given is left as it is.
    """
    check_role(caller, method)
    if caller == ANYBODY or METHODS[method] is Role.VIEWER:
        return request
    if METHODS[method] is Role.REPORTER and caller.role is Role.REPORTER and method not in WITHOUT_GATES:
        for gate in gates_of(request):
            _check_gate(caller, gate)
    named = type(request)()
    named.CopyFrom(request)
    _put_name(caller, named)
    return named


def check_instance(caller: Caller, instance: InstanceId, record: Record) -> None:
    """NotPermitted where a reporter is limited to other instances than the one with this record."""
    if caller.role is not Role.REPORTER or caller.may_report_on(record.attributes):
        return
    raise NotPermitted(
        f"{caller.name} may not report on {instance} ({_described(record)}): only on {caller.selector}",
        cause=Refusal.INSTANCE,
        caller=caller.name,
        instance=instance,
        selector=str(caller.selector),
    )


def check_operator(caller: Caller, what: str) -> None:
    """NotPermitted for a reporter, of something that a method does for operators only."""
    if caller.role.covers(Role.OPERATOR):
        return
    raise NotPermitted(
        f"{caller.name} is a {caller.role}: {what} needs the role {Role.OPERATOR}",
        cause=Refusal.ROLE,
        caller=caller.name,
        role=caller.role,
        needed_role=Role.OPERATOR,
    )


def gates_of(request: Message) -> tuple[str, ...]:
    """The gates that a reporter's request is about: its field, and what follows `gates/` in its name.

    One of no name where there is none, so that only those who may report for every gate get on, to be told of it.
    """
    parts = str(getattr(request, "name", "")).split("/")
    named = (gate for word, gate in pairwise(parts) if word == _GATES)
    return tuple(filter(None, (getattr(request, "gate", ""), *named))) or ("",)


def _check_gate(caller: Caller, gate: str) -> None:
    if not caller.may_report_for(gate):
        allowed = ", ".join(caller.gates)
        raise NotPermitted(
            f"{caller.name} may not report for the gate {gate[:64]!r}: only for {allowed}",
            cause=Refusal.GATE,
            caller=caller.name,
            gates=allowed,
        )


def _put_name(caller: Caller, message: Message) -> None:
    """Into the message's own fields, and those of the messages that are set in it."""
    for field in message.DESCRIPTOR.fields:
        if field.name in IDENTITY_FIELDS:
            _check_name(caller, field.name, getattr(message, field.name))
            setattr(message, field.name, caller.name)
        elif field.name == RUNNER:
            runner = getattr(message, RUNNER)
            _check_name(caller, RUNNER, "" if runner.startswith(f"{caller.name}/") else runner)
            setattr(message, RUNNER, runner or caller.name)
    for field, value in message.ListFields():
        if field.message_type is not None and not field.is_repeated:
            _put_name(caller, value)


def _check_name(caller: Caller, field: str, said: str) -> None:
    if said not in ("", caller.name):
        raise NotPermitted(
            f"{field}: says {said[:64]!r}, and the call is {caller.name}'s: leave it out, or call with that one's "
            "own token or certificate",
            cause=Refusal.NAME,
            caller=caller.name,
            field=field,
        )


def _described(record: Record) -> str:
    """What selectors look at, in few words."""
    names = (record.distinct("namespace"), record.distinct("component"), record.distinct("endpoint"))
    path = ".".join(",".join(name) for name in names if name)
    return " ".join((path, *record.distinct("model"))) or "nothing is known of it"

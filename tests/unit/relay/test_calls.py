"""The contract's values."""

import dataclasses

import grpc
import pytest

from greenroom.relay.calls import FORWARD_AS_IS, Answer, Code, Edit, Observer, SilentObserver


def test_codes_are_those_of_grpc() -> None:
    assert {code.name: int(code) for code in Code} == {code.name: grpc.StatusCode[code.name].value[0] for code in Code}


def test_decisions_and_answers_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Edit(b"a").message = b"b"  # type: ignore[misc]
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
        FORWARD_AS_IS.work = 1  # type: ignore[attr-defined]
    assert Answer(b"").code == 0


def test_the_silent_observer_takes_every_report() -> None:
    silent: Observer = SilentObserver()
    silent.connection_opened()
    silent.connection_closed("why")
    silent.call_relayed(b"/a")
    silent.call_handed_over(b"/a")
    silent.call_refused(b"/a", 1)
    silent.upstream_failed("a:1", "why")
    silent.inspector_failed(b"/a", ValueError())
    silent.handler_failed(b"/a", ValueError())
    assert {name for name in vars(Observer) if not name.startswith("_")} <= set(dir(SilentObserver))

"""A held worker is checked as users would use it: through a whole real frontend, which has a preview of it for etcd."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.e2e.support.dynamo import Dynamo, Frontend, Mocker, PythonWorker
from tests.e2e.support.fleet import BEACON, MOCKED
from tests.e2e.support.store import Store
from tests.support.greenroom import Greenroom
from tests.support.waiting import wait_for


@dataclass(frozen=True, slots=True)
class Checked:
    """A held mocker with a frontend of its own, beside a public worker and a public frontend."""

    greenroom: Greenroom
    mocker: Mocker
    beacon: PythonWorker
    public: Frontend
    inside: Frontend
    address: str


@pytest.fixture(scope="module")
def checked(dynamo: Dynamo, store: Store) -> Iterator[Checked]:
    direct = dynamo.environment(store.url)
    with ExitStack() as stack:
        greenroom = stack.enter_context(Greenroom(store.url, dynamo.folder))
        gated = dynamo.environment(greenroom.url)
        mocker = stack.enter_context(Mocker(dynamo, store, gated, component="backend", model=MOCKED))
        beacon = stack.enter_context(PythonWorker(dynamo, store, direct, component="beacon", model=BEACON))
        beacon.must("register")
        public = stack.enter_context(Frontend(dynamo, direct))
        address = greenroom.must("preview", "open", mocker.instance, "--only").strip()
        environment = dynamo.environment(f"http://{address}")
        inside = Frontend(dynamo, environment, name="frontend-preview")
        # Of all frontends this one asks the most of etcd: more watches, and an event channel on a lease of its own.
        inside.command += ["--router-mode", "kv", "--router-replica-sync"]
        stack.enter_context(inside)
        yield Checked(greenroom, mocker, beacon, public, inside, address)


def test_a_held_worker_answers_a_chat_on_its_preview_and_nobody_elsewhere(checked: Checked) -> None:
    """The check asks the frontend that it was given; users ask theirs, which has never heard of the model."""
    checked.inside.wait_listed(MOCKED)
    checked.inside.wait_chat(MOCKED)
    checked.public.wait_listed(BEACON)
    assert checked.public.models() == {BEACON}
    assert checked.public.chat(MOCKED) == 404
    assert checked.inside.models() == {MOCKED}, "one instance alone: no public card of another one"
    assert checked.inside.chat(BEACON) == 404


def test_its_frontend_writes_what_is_its_own_through_the_preview(checked: Checked, store: Store) -> None:
    """Its event channel is on a lease that the preview relays, beside those of the two workers."""
    checked.inside.wait_chat(MOCKED)
    workers = {checked.mocker.lease_id, checked.beacon.lease_id}
    assert {entry.lease for entry in store.client.prefix(b"v1/event_channels/").kvs} - workers


def test_its_release_makes_it_public_and_closes_the_preview(checked: Checked) -> None:
    """The gates passed: users get the worker, the frontend for checks has done its work."""
    checked.inside.wait_listed(MOCKED)
    checked.greenroom.pass_gates(checked.mocker.instance)
    checked.public.wait_chat(MOCKED)
    wait_for(lambda: "no previews are open" in checked.greenroom.must("preview", "list"), 10, "the preview is closed")
    assert "cause=released" in checked.greenroom.log()

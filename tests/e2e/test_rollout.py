"""A whole rollout with real Dynamo: what keeps a new worker out, what lets it in, and what clients notice: nothing.

The tests follow one rollout, in the order in which they stand; each chapter is a fixture, so a single test also runs
alone. `make rollout-demo` tells the same story to who wants to watch it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import pytest
from rich.console import Console

from greenroom.demo.timeline import Timeline
from tests.e2e.rollout import others, story
from tests.e2e.rollout.site import Site, open_site
from tests.e2e.rollout.workers import CountedMocker
from tests.e2e.support.dynamo import Dynamo
from tests.e2e.support.store import Store


@pytest.fixture(scope="module")
def site(dynamo: Dynamo, store: Store) -> Iterator[Site]:
    with open_site(dynamo, store, Timeline(Console(width=200))) as site:
        yield site


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Chapter(Generic[T]):
    """What was to be seen in it, and was not; and what it leaves to the next one."""

    not_seen: list[str]
    left: T


def played(site: Site, chapter: Callable[..., T], *worker: CountedMocker) -> Chapter[T]:
    before = len(site.told.checks)
    left = chapter(site, *worker)
    return Chapter([check.statement for check in site.told.checks[before:] if not check.holds], left)


@pytest.fixture(scope="module")
def failed(site: Site) -> Chapter[CountedMocker]:
    return played(site, story.failing_gate)


@pytest.fixture(scope="module")
def retried(site: Site, failed: Chapter[CountedMocker]) -> Chapter[CountedMocker]:
    return played(site, story.retry, failed.left)


@pytest.fixture(scope="module")
def withdrawn(site: Site, retried: Chapter[CountedMocker]) -> Chapter[CountedMocker]:
    return played(site, story.withdrawal, retried.left)


@pytest.fixture(scope="module")
def restarted(site: Site, withdrawn: Chapter[CountedMocker]) -> Chapter[CountedMocker]:
    return played(site, story.restart, withdrawn.left)


@pytest.fixture(scope="module")
def second(site: Site, restarted: Chapter[CountedMocker]) -> Chapter[CountedMocker]:
    return played(site, story.rollout_hold)


@pytest.fixture(scope="module")
def adapter(site: Site) -> Chapter[None]:
    return played(site, others.adapter_and_address)


@pytest.fixture(scope="module")
def pair(site: Site) -> Chapter[None]:
    return played(site, others.pair)


def test_a_failing_gate_keeps_a_new_worker_out(failed: Chapter[CountedMocker]) -> None:
    """By its own counter nobody but its gates has asked it; the old worker serves; the runner's /health says why."""
    assert failed.not_seen == []


def test_a_retry_that_passes_brings_it_clients(retried: Chapter[CountedMocker]) -> None:
    assert retried.not_seen == []


def test_a_withdrawal_takes_it_out_and_its_streams_finish(withdrawn: Chapter[CountedMocker]) -> None:
    assert withdrawn.not_seen == []


def test_a_restarted_worker_is_checked_again(restarted: Chapter[CountedMocker]) -> None:
    """It was killed while it was withdrawn: its old lease and record are still there."""
    assert restarted.not_seen == []


def test_a_rollout_hold_stops_a_second_one_until_it_is_lifted(second: Chapter[CountedMocker]) -> None:
    assert second.not_seen == []


def test_an_adapter_and_a_held_address_are_gated_too(adapter: Chapter[None]) -> None:
    """With `card+instance` a plain client of the endpoint neither sees nor counts the held worker."""
    assert adapter.not_seen == []


def test_prefill_and_decode_are_gated_too(pair: Chapter[None]) -> None:
    assert pair.not_seen == []


def test_no_client_has_noticed_anything(site: Site, second: Chapter[CountedMocker]) -> None:
    """Not one chat has failed, short or long, from before the first chapter until now."""
    assert played(site, story.conclude).not_seen == []

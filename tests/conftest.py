"""Fixtures that all rings share.

The rule: a fixture gives real things (an etcd process, a client, etcdctl) and leaves nothing behind.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, settings

from tests.support.client import EtcdClient
from tests.support.endpoints import (
    Endpoint,
    Proxy,
    direct_endpoint,
    launched_proxy,
    wipe_beside_proxies,
)
from tests.support.etcd import Etcd, etcd_version, find_etcd
from tests.support.etcdctl import Etcdctl, find_etcdctl
from tests.support.observer import Observer

# Examples are right or wrong, on a busy machine too: none is judged by how long it takes.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_report_header() -> str:
    """Runs on several etcds follow each other; each says which one it is on."""
    return f"etcd: {which_etcd()}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure tells the version too, since it may be one of that version alone."""
    report = yield
    if report.failed:
        report.sections.append(("etcd", which_etcd()))
    return report


def which_etcd() -> str:
    """The unit ring needs none."""
    try:
        binary = find_etcd()
    except AssertionError as error:
        return str(error)
    return f"{'.'.join(map(str, etcd_version(binary)))} at {binary}"


@pytest.fixture(scope="session")
def session_etcd() -> Iterator[Etcd]:
    """One etcd for the whole run. Tests take `etcd`, which empties it first."""
    with Etcd.launch() as etcd:
        yield etcd


@pytest.fixture
def etcd(session_etcd: Etcd) -> Etcd:
    """The run's etcd, with no key and no lease. Not for tests that stop it, compact it, or turn on auth."""
    with session_etcd.client() as client:
        client.wipe()
    return session_etcd


@pytest.fixture
def own_etcd() -> Iterator[Etcd]:
    """An etcd of the test's own, for whatever it wants to do to it."""
    with Etcd.launch() as etcd:
        yield etcd


@pytest.fixture
def launch_etcd() -> Iterator[Callable[..., Etcd]]:
    """Starts as many as the test asks for, by the arguments of `Etcd.launch`; all end with the test."""
    started: list[Etcd] = []

    def launch(binary: str | None = None, arguments: tuple[str, ...] = ()) -> Etcd:
        started.append(Etcd.launch(binary, arguments))
        return started[-1]

    yield launch
    for etcd in started:
        etcd.close()


@pytest.fixture
def client(etcd: Etcd) -> Iterator[EtcdClient]:
    """A client of `etcd` itself."""
    with etcd.client() as client:
        yield client


@pytest.fixture
def etcdctl(etcd: Etcd) -> Etcdctl:
    """etcdctl on `etcd` itself; `Etcdctl(endpoint, etcdctl.binary)` points it elsewhere."""
    return Etcdctl(etcd.endpoint, find_etcdctl())


@pytest.fixture
def observer(etcd: Etcd) -> Iterator[Observer]:
    """An independent public observer of `etcd`, from the start of the test."""
    with Observer(etcd.port) as observer:
        yield observer


@pytest.fixture(scope="session")
def session_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """One proxy for the whole run, before an etcd of its own. Tests take `proxy`, which empties both first."""
    with Etcd.launch() as etcd, launched_proxy(etcd, tmp_path_factory.mktemp("proxy")) as proxy:
        yield proxy


@pytest.fixture
def proxy(session_proxy: Proxy) -> Proxy:
    """The run's proxy, every instance needing the gates `smoke` and `latency`, with nothing registered. Not for tests
    that stop it or its etcd.
    """
    wipe_beside_proxies(session_proxy.etcd)
    return session_proxy


@pytest.fixture(params=["direct", "proxied"])
def etcd_or_proxy(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    """The same test straight on etcd and through the proxy: a client must not see a difference."""
    if request.param == "proxied":
        yield request.getfixturevalue("proxy")
        return
    with direct_endpoint(request.getfixturevalue("etcd")) as endpoint:
        yield endpoint


@pytest.fixture(params=["direct", "proxied"])
def own_etcd_or_proxy(
    request: pytest.FixtureRequest, own_etcd: Etcd, launch_proxy: Callable[..., Proxy]
) -> Iterator[Endpoint]:
    """As `etcd_or_proxy`, with an etcd of the test's own behind it."""
    if request.param == "proxied":
        yield launch_proxy(own_etcd)
        return
    with direct_endpoint(own_etcd) as endpoint:
        yield endpoint


@pytest.fixture
def launch_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Proxy]]:
    """Starts a proxy before the given etcd, by the options of `Greenroom`; all end with the test."""
    with ExitStack() as stack:

        def launch(etcd: Etcd, **options: str | int | tuple[str, ...]) -> Proxy:
            return stack.enter_context(launched_proxy(etcd, tmp_path_factory.mktemp("proxy"), **options))

        yield launch

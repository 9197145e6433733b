"""The two ways to etcd that a client can be given: straight, or through the proxy.

The rule: a test that takes either way must not be able to tell which it was given, except by what is held.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.client import EtcdClient
from tests.support.control import Control
from tests.support.etcd import Etcd
from tests.support.greenroom import Greenroom
from tests.support.workers import Worker

RESERVED = b"\x01greenroom/"
SHADOWS = RESERVED + b"held/"
RECORDS = RESERVED + b"instances/"
PROXIES = RESERVED + b"proxies/"
ROLLOUT_HOLDS = RESERVED + b"rollout-holds/"
FIRST_CLIENT_KEY = b"\x02"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`client` goes this way, `public` straight to the same etcd."""

    etcd: Etcd
    address: str
    client: EtcdClient
    public: EtcdClient

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def hold_somebody(self) -> list[bytes]:
        """A worker with two cards waits behind the proxy; without one nothing happens. The held keys."""
        return []


@dataclass(frozen=True, slots=True)
class Proxy(Endpoint):
    """Through the proxy, which `control` steers."""

    greenroom: Greenroom
    control: Control

    def hold_somebody(self) -> list[bytes]:
        worker = self.held_worker()
        worker.register_lora()
        return [worker.card_key, worker.lora_key()]

    def held_worker(self, *, component: str = "backend", model: str = "tiny", ttl_seconds: int = 60) -> Worker:
        """A worker whose card is registered and, as its being in etcd shows, held."""
        worker = Worker(self.client, component=component, model=model, ttl_seconds=ttl_seconds)
        assert worker.register().succeeded
        assert self.held(worker) == [worker.card_key]
        assert self.public.get(worker.card_key) is None
        return worker

    def released_worker(self) -> Worker:
        worker = self.held_worker()
        assert self.control.pass_gates(worker.instance) == "RELEASED"
        assert self.public.get(worker.card_key) is not None
        return worker

    def held(self, worker: Worker) -> list[bytes]:
        """The names of its held keys as they lie in etcd, without what they lie under."""
        prefix = SHADOWS + worker.instance.encode() + b"/"
        return [entry.key.removeprefix(prefix) for entry in self.public.prefix(prefix).kvs]

    def shown(self, worker: Worker) -> list[bytes]:
        """Its keys that everybody can see."""
        everything = self.public.range(FIRST_CLIENT_KEY, b"\0").kvs
        return [entry.key for entry in everything if worker.instance.encode() in entry.key]

    def has_record(self, worker: Worker) -> bool:
        return self.public.get(RECORDS + worker.instance.encode()) is not None


@contextmanager
def direct_endpoint(etcd: Etcd) -> Iterator[Endpoint]:
    with etcd.client() as client, etcd.client() as public:
        yield Endpoint(etcd, etcd.address, client, public)


@contextmanager
def proxied_endpoint(etcd: Etcd, greenroom: Greenroom) -> Iterator[Proxy]:
    with EtcdClient(greenroom.address) as client, etcd.client() as public, Control(greenroom.control) as control:
        yield Proxy(etcd, greenroom.address, client, public, greenroom, control)


@contextmanager
def launched_proxy(etcd: Etcd, folder: Path, **options: str | int | tuple[str, ...]) -> Iterator[Proxy]:
    """A proxy of one's own; `options` are Greenroom's."""
    with (
        Greenroom(etcd.endpoint, folder, **options) as greenroom,  # type: ignore[arg-type]
        proxied_endpoint(etcd, greenroom) as endpoint,
    ):
        yield endpoint


def wipe_beside_proxies(etcd: Etcd) -> None:
    """Leaves nothing of clients', instances' or operators', and the running proxies what they are."""
    with etcd.client() as client:
        kept = {entry.lease for entry in client.prefix(PROXIES).kvs}
        for lease in client.leases():
            if lease not in kept:
                client.revoke(lease)
        client.delete(FIRST_CLIENT_KEY, b"\0")
        client.delete(ROLLOUT_HOLDS, ROLLOUT_HOLDS[:-1] + b"0")

"""The ports for etcd's clients: the workers' own, and one that shows what is public and nothing else."""

from collections.abc import Iterator
from dataclasses import dataclass

from greenroom.addresses import Address
from greenroom.core.restore import lease_answer, without_reserved_keys
from greenroom.core.templates import GatedKeys
from greenroom.places import Places, named
from greenroom.serve.handlers import LeaseAnswer
from greenroom.serve.inspector import EtcdInspector
from greenroom.serve.public_inspector import PublicInspector
from greenroom.settings import Settings


@dataclass(frozen=True, slots=True)
class EtcdPort:
    """A port, and how much it shows. `advertise_url` is what its clients are told instead of etcd's own URLs:

    the port's own, since one that followed another one's would be shown what is held there.
    """

    option: str
    address: Address
    advertise_url: str
    inspector: EtcdInspector
    lease_answer: LeaseAnswer


def etcd_ports(settings: Settings, places: Places, gated_keys: GatedKeys) -> Iterator[EtcdPort]:
    """One, or both."""
    url = settings.advertise_client_url or named(places.listen).url
    yield EtcdPort("--listen", places.listen, url, EtcdInspector(gated_keys), lease_answer)
    if places.public is not None:
        url = settings.public_advertise_client_url or named(places.public).url
        inspector = PublicInspector(gated_keys)
        yield EtcdPort("--public-listen", places.public, url, inspector, without_reserved_keys)

"""The ports for etcd's clients."""

from greenroom.addresses import Address
from greenroom.core.templates import dynamo_gated_keys
from greenroom.etcd_ports import EtcdPort, etcd_ports
from greenroom.pb.etcd import rpc_pb2
from greenroom.places import Places
from greenroom.serve.inspector import EtcdInspector
from greenroom.serve.public_inspector import PublicInspector
from greenroom.settings import load_settings

HERE = Address("127.0.0.1", 1)
SHADOW = b"\x01greenroom/held/1/v1/mdc/a/b/c/1"
CARD = b"v1/mdc/a/b/c/1"


def ports(public: Address | None, **given: object) -> list[EtcdPort]:
    settings = load_settings({"upstream": ["http://127.0.0.1:2379"], "gate": ["smoke=900s"], **given})
    places = Places(Address("10.0.0.1", 2389), HERE, HERE, public)
    return list(etcd_ports(settings, places, dynamo_gated_keys(instances=False)))


def test_workers_always_have_theirs() -> None:
    (port,) = ports(None)
    assert (port.option, port.advertise_url, type(port.inspector)) == (
        "--listen",
        "http://10.0.0.1:2389",
        EtcdInspector,
    )
    assert ports(None, advertise_client_url="https://fleet:1")[0].advertise_url == "https://fleet:1"


def test_the_public_one_shows_nothing_of_what_is_held_and_names_itself() -> None:
    """A client that follows the members' URLs must not come out at the workers' port."""
    workers, public = ports(Address("10.0.0.2", 2388), public_listen="10.0.0.2:2388")
    assert (public.option, public.advertise_url, type(public.inspector)) == (
        "--public-listen",
        "http://10.0.0.2:2388",
        PublicInspector,
    )
    lease = rpc_pb2.LeaseTimeToLiveResponse(keys=[SHADOW, b"v1/other"])
    assert list(public.lease_answer(lease).keys) == [b"v1/other"]
    assert list(workers.lease_answer(lease).keys) == [CARD, b"v1/other"]
    given = {"public_listen": "10.0.0.2:2388", "public_advertise_client_url": "https://public:1"}
    assert ports(Address("10.0.0.2", 2388), **given)[1].advertise_url == "https://public:1"

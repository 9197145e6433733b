"""The independent observer sees what etcd has."""

from tests.support.client import EtcdClient, delete, put
from tests.support.etcd import Etcd
from tests.support.observer import Observer


def test_the_observer_sees_events_and_ranges(etcd: Etcd, client: EtcdClient) -> None:
    lease = client.grant()
    with Observer(etcd.port) as observer:
        revision = client.put(b"v1/a\x00\xff", b"\x01value", lease).header.revision
        client.txn([], [put(b"\x01reserved", b""), put(b"z", b"")])
        assert [(kv.key, kv.lease) for kv in observer.everything()] == [
            (b"\x01reserved", 0),
            (b"v1/a\x00\xff", lease),
            (b"z", 0),
        ]
        assert observer.range(b"v1/a\x00\xff")[0].mod_revision == revision
        last = client.txn([], [delete(b"z"), delete(b"\x01reserved")]).header.revision
        events = [(event.kind, event.key) for event in observer.wait_revision(last)]
    assert events[:3] == [("PUT", b"v1/a\x00\xff"), ("PUT", b"\x01reserved"), ("PUT", b"z")]
    assert ("DELETE", b"z") in events


def test_the_observer_can_look_back(etcd: Etcd, client: EtcdClient) -> None:
    revision = client.put(b"a", b"1").header.revision
    client.put(b"a", b"2")
    with Observer(etcd.port, start_revision=revision) as observer:
        assert [event.value for event in observer.wait_revision(revision + 1)] == [b"1", b"2"]

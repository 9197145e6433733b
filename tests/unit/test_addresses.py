"""Addresses in settings."""

import pytest

from greenroom.addresses import Address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("127.0.0.1:2389", "127.0.0.1", 2389), ("[::1]:0", "::1", 0), ("etcd.local:65535", "etcd.local", 65535)],
)
def test_an_address_reads_back_as_written(text: str, host: str, port: int) -> None:
    address = Address.parse(text)
    assert (address.host, address.port, str(address)) == (host, port, text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("127.0.0.1", "no host:port"),
        (":2389", "names no host"),
        ("127.0.0.1:x", "'x' is no port"),
        ("127.0.0.1:65536", "'65536' is no port"),
        ("127.0.0.1:-1", "'-1' is no port"),
        ("127.0.0.1:²", "is no port"),
        ("::1:2389", "brackets"),
        ("a/b:1", "is no host"),
    ],
)
def test_a_wrong_address_is_told_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Address.parse(text)


def test_a_url_is_etcds_address() -> None:
    assert Address.of_url("http://127.0.0.1:2379") == Address("127.0.0.1", 2379)
    assert Address.of_url("http://[::1]:2379/") == Address("::1", 2379)
    assert Address("::1", 2379).url == "http://[::1]:2379"
    assert Address.of_url("https://a:1") == Address("a", 1, is_secure=True)
    assert Address.of_url("https://a:1").url == "https://a:1"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://a:1", "https://"),
        ("127.0.0.1:2379", "http://"),
        ("http://a:1/v3", "path"),
        ("http://a:1?x=1", "path or query"),
        ("http://ann:secret@a:1", "password"),
        ("http://a", "no host:port"),
        ("http://[::1:2379", "no URL"),
    ],
)
def test_a_url_with_more_than_an_address_is_refused(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Address.of_url(url)


@pytest.mark.parametrize(
    ("host", "here"), [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True)]
)
def test_loopback_is_this_machine(host: str, here: bool) -> None:
    assert Address(host, 1).is_loopback is here


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "etcd.local"])
def test_anything_else_may_be_reached_from_elsewhere(host: str) -> None:
    """A name can stand for any address, so it counts as reachable."""
    assert not Address(host, 1).is_loopback

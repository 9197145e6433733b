"""Where gates of the kind `url` are asked: this machine, unless told otherwise."""

import pytest

from greenroom.addresses import Address
from greenroom.gates.url_place import UrlPlace


@pytest.mark.parametrize(
    ("url", "address", "target"),
    [
        ("http://127.0.0.1:9100/validate/smoke?x=1", Address("127.0.0.1", 9100), "/validate/smoke?x=1"),
        ("http://localhost", Address("localhost", 80), "/"),
        ("http://[::1]:9100/", Address("::1", 9100), "/"),
    ],
)
def test_a_url_is_a_place_on_this_machine(url: str, address: Address, target: str) -> None:
    assert UrlPlace.of(url, allow_remote=False) == UrlPlace(address, target)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://10.0.0.7/", "is not this machine"),
        ("http://127.0.0.1.example/", "is not this machine"),
        ("https://127.0.0.1/", "is not http://"),
        ("file:///etc/passwd", "must begin with http://"),
        ("127.0.0.1:9100", "must begin with http://"),
        ("http://a:b@127.0.0.1/", "must not carry a user or password"),
        ("http://127.0.0.1:x/", "is no URL"),
        ("http://127.0.0.1:0/", "has port 0"),
        ("http://127.0.0.1/ HTTP/1.1\r\nx: y", "is no URL: it has characters that none has"),
    ],
)
def test_others_are_refused_in_words(url: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        UrlPlace.of(url, allow_remote=False)


def test_a_flag_allows_other_machines_and_https() -> None:
    assert UrlPlace.of("https://checks.example/x", allow_remote=True).address == Address("checks.example", 443, True)
    with pytest.raises(ValueError, match="must begin"):
        UrlPlace.of("file:///x", allow_remote=True)

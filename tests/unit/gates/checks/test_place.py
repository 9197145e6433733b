"""Where a check may ask, and what is no such place."""

import pytest

from greenroom.gates.checks.place import Place


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1/models"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1/models"),
        ("http://localhost:8000/api/v1/", "http://localhost:8000/api/v1/models"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1/models"),
        ("https://127.0.0.1/v1", "https://127.0.0.1:443/v1/models"),
        ("http://127.0.0.1", "http://127.0.0.1:80/v1/models"),
    ],
)
def test_a_base_url_is_taken_apart(text: str, url: str) -> None:
    assert Place.of_url(text, allow_remote=False).url("/models") == url


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("127.0.0.1:8000", "must begin with http:// or https://"),
        ("ftp://127.0.0.1/v1", "must begin with http:// or https://"),
        ("http://user:secret@127.0.0.1/v1", "must not carry a user or password"),
        ("http://127.0.0.1/v1?x=1", "must end with its path"),
        ("http://127.0.0.1:port/v1", "is no URL"),
        ("http://[::1/v1", "is no URL"),
        ("http:///v1", "names no host"),
        ("http://127.0.0.1:0/v1", "has port 0"),
        ("http://127.0.0.1/v1\r\nx: y", "is no URL: it has characters that none has"),
        ("http://127.0.0.1/v1 HTTP/1.1", "is no URL: it has characters that none has"),
        ("http://127.0.0.1/vé", "is no URL: it has characters that none has"),
        ("http://10.0.0.1:8000/v1", "is not this machine"),
        ("http://frontend:8000/v1", "is not this machine"),
    ],
)
def test_what_is_no_place_of_this_machine_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Place.of_url(text, allow_remote=False)


def test_other_machines_may_be_allowed() -> None:
    assert Place.of_url("http://frontend:8000/v1", allow_remote=True).address.host == "frontend"

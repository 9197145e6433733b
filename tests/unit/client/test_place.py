"""Where the control API is asked: addresses, files and tokens that fit together, and those that do not."""

import os
from pathlib import Path

import grpc
import pytest

from greenroom.addresses import DEFAULT_CONTROL, Address
from greenroom.cli.client import OPTIONS
from greenroom.client.naming import ARGUMENTS
from greenroom.client.place import VARIABLES, Place, place_from_environment
from greenroom.errors import SettingsError
from tests.support.certificates import Authority

SECURE = "https://control.fleet:2390"


def test_an_address_may_be_a_url() -> None:
    assert Place("a:1").address(OPTIONS) == Place("http://a:1").address(OPTIONS) == Address("a", 1)
    assert Place(SECURE).address(OPTIONS) == Address("control.fleet", 2390, is_secure=True)
    with pytest.raises(SettingsError, match="--control 'ftp://a:1': must begin with"):
        Place("ftp://a:1").address(OPTIONS)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (Place("a:1", ca="f"), "--control 'a:1': is not https://, and --control-ca 'f' is given"),
        (Place(SECURE), f"--control '{SECURE}': needs --control-ca"),
        (
            Place(SECURE, "f", "c"),
            "--control-ca 'f', --control-cert 'c': --control-cert and --control-key are",
        ),
        (Place(SECURE, "/absent"), "--control-ca '/absent': cannot be read"),
    ],
)
def test_files_that_do_not_fit_are_told(place: Place, said: str) -> None:
    for naming in (OPTIONS, ARGUMENTS):
        words = said if naming is OPTIONS else _of_arguments(said)
        with pytest.raises(SettingsError) as raised:
            place.credentials(naming)
        assert str(raised.value).startswith(words)


def _of_arguments(said: str) -> str:
    for kind in ("ca", "cert", "key"):
        said = said.replace(f"--control-{kind}", f"{kind}_file")
    return said.replace("--control", "address")


def test_credentials_are_of_the_files(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue()
    assert Place("a:1").credentials(OPTIONS) is None
    for own in (("", ""), (str(issued.cert), str(issued.key))):
        assert isinstance(Place(SECURE, str(issued.ca), *own).credentials(OPTIONS), grpc.ChannelCredentials)


def test_a_token_comes_from_the_file_else_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    assert Place().known_token(OPTIONS) is None
    assert Place(token="two").known_token(OPTIONS) == "two"
    assert Place(token="two", token_file=str(path)).known_token(OPTIONS) == "one"
    assert "two" not in repr(Place(token="two"))


def test_what_is_no_token_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "token"
    for content, said in (("secret secret", "is no token"), ("", "is empty"), ("secret\nb", "more than one line")):
        path.write_text(content)
        with pytest.raises(SettingsError, match=f"--token-file '{path}': .*{said}") as raised:
            Place(token_file=str(path)).known_token(OPTIONS)
        assert "secret" not in str(raised.value)
    with pytest.raises(SettingsError, match=r"^GREENROOM_TOKEN: is no token"):
        Place(token="sécret").known_token(VARIABLES)


def test_a_token_does_not_cross_a_network_in_plaintext() -> None:
    with pytest.raises(SettingsError, match=r"^address '10\.0\.0\.9:1': is neither .*, or say insecure_token=True$"):
        Place("10.0.0.9:1", token="secret").known_token(ARGUMENTS)
    assert Place("127.0.0.1:1", token="secret").known_token(ARGUMENTS) == "secret"
    assert Place(SECURE, token="secret").known_token(ARGUMENTS) == "secret"
    assert Place("10.0.0.9:1", token="secret", insecure=True).known_token(ARGUMENTS) == "secret"


def test_the_variables_are_those_of_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("GREENROOM_")]:
        monkeypatch.delenv(name)
    assert place_from_environment() == Place(DEFAULT_CONTROL)
    names = ("CONTROL", "CONTROL_CA", "CONTROL_CERT", "CONTROL_KEY", "TOKEN", "TOKEN_FILE", "INSECURE_CONTROL")
    for name, value in zip(names, ("a:1", "b", "c", "d", "e", "f", "1"), strict=True):
        monkeypatch.setenv(f"GREENROOM_{name}", value)
    assert place_from_environment() == Place("a:1", "b", "c", "d", "e", "f", insecure=True)
    for word, means in {"True": True, "0": False, "false": False, "no": False}.items():
        monkeypatch.setenv("GREENROOM_INSECURE_CONTROL", word)
        assert place_from_environment().insecure is means, "as `serve` takes it"
    monkeypatch.setenv("GREENROOM_CONTROL", "")
    assert place_from_environment().control == DEFAULT_CONTROL, "empty is not given, as for the command line"

"""What commands have in common."""

import io

import pytest
from rich.console import Console

from greenroom.addresses import DEFAULT_CONTROL, Address
from greenroom.cli.client import ControlClient
from greenroom.cli.options import (
    complain,
    connect,
    control_again,
    duration,
    in_own_name,
    named,
    painted,
    readable,
    say,
)
from greenroom.client.callers import myself
from greenroom.errors import ControlError, SettingsError


def test_a_wrong_control_address_is_named() -> None:
    with pytest.raises(SettingsError, match="--control 'nowhere': is no host:port"):
        connect("nowhere")


def test_a_command_obeys_the_variables_of_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GREENROOM_TOKEN_FILE", "GREENROOM_INSECURE_CONTROL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GREENROOM_TOKEN", "secret")
    with pytest.raises(SettingsError, match=r"--control '10\.0\.0\.9:1': is neither https:// nor this machine"):
        connect("10.0.0.9:1")
    with connect("127.0.0.1:1") as client:
        assert client.is_known
    monkeypatch.setenv("GREENROOM_INSECURE_CONTROL", "1")
    with connect("10.0.0.9:1"):
        pass


def test_a_duration_is_named_by_its_option() -> None:
    assert duration("--timeout", "2m") == 120
    with pytest.raises(SettingsError, match="--timeout '2': '2' is no duration"):
        duration("--timeout", "2")


def test_printed_commands_name_the_control_port_only_where_they_must(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GREENROOM_CONTROL", raising=False)
    assert control_again(DEFAULT_CONTROL) == ""
    assert control_again("127.0.0.1:9") == " --control 127.0.0.1:9"
    assert control_again("[::1]:9") == " --control '[::1]:9'"
    monkeypatch.setenv("GREENROOM_CONTROL", "127.0.0.1:9")
    assert control_again("127.0.0.1:9") == ""
    assert control_again(DEFAULT_CONTROL) == f" --control {DEFAULT_CONTROL}"
    monkeypatch.setenv("GREENROOM_CONTROL", "")
    assert control_again(DEFAULT_CONTROL) == ""


def test_states_have_colours_only_where_there_are_colours() -> None:
    plain = io.StringIO()
    say("a HELD b", "c\nd", to=Console(file=plain))
    assert plain.getvalue() == "a HELD b\nc\ufffdd\n"
    assert [str(span.style) for span in painted("HELD RELEASED smoke failed").spans] == ["yellow", "green", "red"]


@pytest.mark.parametrize("text", ["367d", "99999999999d", f"{'9' * 400}d"])
def test_a_duration_beyond_all_reason_is_refused_and_not_counted(text: str) -> None:
    """Protobuf cannot say it, and the traceback that came of it told nobody so."""
    with pytest.raises(SettingsError, match="is longer than 366d"):
        duration("--for", text)


def test_a_reason_that_was_cut_within_a_letter_is_sent_all_the_same() -> None:
    r"""As `--reason "$(tail -c 2000 log)"` makes them: what the shell passes on is no UTF-8 then."""
    assert readable("\udca4 tail of a log, ü") == "\ufffd tail of a log, ü"


def test_a_complaint_is_one_line_that_no_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    complain("greenroom: no instance has id 'a'; there are: b (x\x1b[2J\ny, HELD)")
    assert capsys.readouterr().err == "greenroom: no instance has id 'a'; there are: b (x\ufffd[2J y, HELD)\n"


def test_whoever_shows_a_token_does_not_say_who_he_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy knows; user@host would be somebody else's name, and refused."""
    monkeypatch.setenv("LOGNAME", "ann")
    monkeypatch.setattr("socket.gethostname", lambda: "desk")
    place = Address("127.0.0.1", 1)
    with ControlClient(place, "abc") as known, ControlClient(place) as unknown:
        assert (named(None, known), named(None, unknown)) == ("", "ann@desk")
        assert named("ci\udcff", known) == "ci\ufffd"


def test_printed_commands_name_the_token_file_that_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GREENROOM_CONTROL", raising=False)
    monkeypatch.delenv("GREENROOM_TOKEN_FILE", raising=False)
    assert control_again(DEFAULT_CONTROL, "my token") == " --token-file 'my token'"
    assert control_again("127.0.0.1:9", "t") == " --control 127.0.0.1:9 --token-file t"
    monkeypatch.setenv("GREENROOM_TOKEN_FILE", "t")
    assert control_again(DEFAULT_CONTROL, "t") == ""


class Proxy:
    """Wants to be told who asks, unless it knows by itself."""

    def __init__(self, *, knows: bool, field: str = "actor") -> None:
        self.knows, self.field = knows, field
        self.names: list[str] = []

    def __call__(self, name: str) -> str:
        self.names.append(name)
        if not name and not self.knows:
            raise ControlError("actor: is required: who decides", "INVALID_REQUEST", self.field)
        return name


@pytest.mark.parametrize("field", ["actor", "rollout_hold.actor"])
def test_a_proxy_that_takes_no_notice_of_a_token_is_told_who_asks(field: str) -> None:
    """With GREENROOM_TOKEN set, every decision at a proxy without an access file asked for --actor."""
    with ControlClient(Address("127.0.0.1", 1), "a-token") as client:
        assert in_own_name(None, client, open_ := Proxy(knows=False, field=field)) == myself()
        assert open_.names == ["", myself()]
        assert in_own_name(None, client, Proxy(knows=True)) == ""
        assert in_own_name("ann", client, Proxy(knows=False)) == "ann"
        with pytest.raises(ControlError):
            in_own_name(None, client, Proxy(knows=False, field="reason"))

"""The settings of previews. How mistakes are told: tests/unit/test_settings.py."""

import pytest

from greenroom.addresses import Address
from greenroom.core.selectors import Selector
from greenroom.errors import SettingsError
from greenroom.settings import Settings, load_settings


def loaded(**given: object) -> Settings:
    return load_settings({"embedded_etcd": True, "allow_ungated": True, **given})


def test_they_stay_on_this_machine_by_default() -> None:
    places = loaded().preview_places
    assert (places.host, places.advertised, places.ports) == ("127.0.0.1", None, None)
    assert loaded().preview_listen is None


def test_what_can_be_said() -> None:
    told = loaded(
        preview_host="::1",
        preview_ports="23800-23802",
        preview_advertise="10.0.0.7",
        preview_listen="127.0.0.1:23799",
        preview_selector="model=tiny*, component=backend",
    )
    places = told.preview_places
    assert (places.host, places.advertised, places.ports) == ("::1", "10.0.0.7", (23800, 23801, 23802))
    assert told.preview_listen == Address("127.0.0.1", 23799)
    assert told.preview_selector == Selector(model="tiny*", component="backend")
    assert loaded(preview_ports="80").preview_places.ports == (80,)


@pytest.mark.parametrize("given", [{"preview_host": "0.0.0.0"}, {"preview_listen": "10.0.0.7:1"}])
def test_beyond_this_machine_only_if_told_so(given: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="shows what is held to whoever connects; --insecure-preview allows it"):
        loaded(**given)
    assert loaded(**given, insecure_preview=True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"preview_ports": "9-8"}, "--preview-ports '9-8': ends before it begins"),
        ({"preview_ports": "0-8"}, "is no range of ports such as 23800-23899"),
        ({"preview_ports": "a"}, "is no range of ports"),
        ({"preview_ports": "1-70000"}, "is no range of ports"),
        ({"preview_host": "a:1"}, "--preview-host 'a:1'"),
        ({"preview_selector": "model=x"}, "is for --preview-listen, which is not given"),
        ({"preview_listen": "127.0.0.1:1", "preview_selector": "colour=red"}, "'colour=red' is no K=GLOB, with K one"),
        ({"preview_listen": "127.0.0.1:1", "preview_selector": "model=a,model=b"}, "model is given twice"),
        ({"preview_listen": "127.0.0.1:2389"}, "is the address of --listen too"),
    ],
)
def test_mistakes(given: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError) as raised:
        loaded(**given)
    assert words in str(raised.value)

"""Previews on the command line."""

import pytest

from greenroom.cli.preview import find, render, shows
from greenroom.errors import ControlError
from greenroom.pb.control.v1.control_pb2 import Preview, Selector
from tests.support.shown import NOW, at


def preview(preview_id: str, seconds: int = 0, **fields: object) -> Preview:
    made = Preview(name=f"previews/{preview_id}", address="127.0.0.1:9", create_time=at(-90), **fields)  # type: ignore[arg-type]
    if seconds:
        made.expire_time.CopyFrom(at(seconds))
    return made


ALONE = preview("abc1", 7200, instance="instances/a1", only=True, actor="ann")
STANDING = preview("standing", selector=Selector(model="tiny"))


def test_the_list() -> None:
    assert render([ALONE, STANDING], NOW) == [
        "ID        SHOWS                       ADDRESS      WHO                AGE     ENDS",
        "abc1      a1 alone                    127.0.0.1:9  ann                1m 30s  2h left",
        "standing  what is held of model=tiny  127.0.0.1:9  the proxy's start  1m 30s  with its proxy",
    ]
    assert render([], NOW) == ["no previews are open here"]


def test_one_is_found_by_any_part_of_its_id() -> None:
    assert find([ALONE, STANDING], "stand") is STANDING
    assert find([ALONE, preview("abc10")], "previews/abc1") is ALONE
    with pytest.raises(ControlError, match=r"'abc' is ambiguous: abc1 \(a1 alone\), abc10"):
        find([ALONE, preview("abc10")], "abc")
    with pytest.raises(ControlError, match="no preview 'x'; there are: none"):
        find([], "x")


def test_what_one_shows() -> None:
    assert shows(preview("x", instance="instances/a1")) == "a1"
    assert shows(preview("x")) == "what is held of every instance"

"""Whether a list of models has one."""

from typing import Any

import pytest

from greenroom.errors import CheckFailed
from greenroom.gates.checks.asking import Asker
from greenroom.gates.checks.models import check_models
from greenroom.gates.checks.place import Place
from tests.support.odd_server import OddServer, told


def checked(answer: Any) -> str:
    with OddServer(lambda _: told(answer)) as server:
        return check_models(Asker(Place.of_url(server.url, allow_remote=False), 20), "tiny")


def listing(*names: object) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": name} for name in names]}


def test_a_model_that_is_listed_passes() -> None:
    assert checked(listing("other", "tiny")) == "tiny is listed"


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (listing(), "none"),
        (listing("tiny2", 7), "tiny2"),
        (listing(*(f"m{n}" for n in range(10))), "m0, m1, m2, m3, m4, m5, m6, m7 and 2 more"),
        ({"data": ["tiny"]}, "none"),
    ],
)
def test_one_that_is_not_is_told_with_those_that_are(answer: Any, shown: str) -> None:
    with pytest.raises(CheckFailed, match=rf"/v1/models does not list tiny; listed: {shown}$"):
        checked(answer)


@pytest.mark.parametrize("answer", [{}, [], {"data": {}}, "text"])
def test_what_is_no_list_is_told(answer: Any) -> None:
    with pytest.raises(CheckFailed, match="the answer is no list of models"):
        checked(answer)

"""What validators raise becomes the one line of `load_settings`."""

import pytest
from pydantic_core import PydanticCustomError

from greenroom.setting_errors import wrong


def test_the_field_is_kept_beside_what_is_wrong() -> None:
    with pytest.raises(PydanticCustomError) as raised:
        wrong("listen", "is {not} a place")
    assert (str(raised.value), raised.value.context) == (
        "is {not} a place",
        {"field": "listen", "message": "is {not} a place"},
    )

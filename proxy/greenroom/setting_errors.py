"""How a validator says what is wrong with a setting that is wrong only beside others."""

from typing import NoReturn

from pydantic_core import PydanticCustomError


def wrong(field: str, message: str) -> NoReturn:
    """Raised in a validator of all settings; `load_settings` makes one line of it, with the field as it was given."""
    raise PydanticCustomError("setting", "{message}", {"field": field, "message": message})

"""`greenroom serve` has an option for each setting."""

import inspect

from greenroom.cli.serve import serve
from greenroom.settings import BY_VARIABLE_ONLY, Settings


def test_each_setting_is_an_option_and_the_other_way_round() -> None:
    """A setting that can only be given as a variable would be found by nobody; a password must not be an option."""
    assert set(inspect.signature(serve).parameters) == set(Settings.model_fields) - BY_VARIABLE_ONLY


def test_what_is_not_given_is_left_to_the_settings() -> None:
    """A default here would win over the variable."""
    assert {parameter.default for parameter in inspect.signature(serve).parameters.values()} == {None}

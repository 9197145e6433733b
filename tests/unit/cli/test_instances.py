"""What the commands about instances are called with; what they show is tested where it is written."""

import pytest

from greenroom.cli.instances import _state
from greenroom.errors import SettingsError


def test_a_state_that_is_none_is_named_by_its_option() -> None:
    with pytest.raises(SettingsError, match="--state 'queued': is none of held"):
        _state("--state", "queued")

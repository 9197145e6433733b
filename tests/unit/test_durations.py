"""Durations as people write and read them."""

import pytest

from greenroom.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("900s", 900), ("15m", 900), ("1h30m", 5400), ("2d", 172800), ("1.5h", 5400), ("250ms", 0.25), ("1m5s", 65)],
)
def test_what_people_write(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "900", "s", "15 m", "-5s", "0s", "1h30", "five minutes", "1e3s", "٣s "])
def test_what_is_refused(text: str) -> None:
    """A forgotten unit must not become seconds where minutes were meant."""
    with pytest.raises(ValueError, match=r"duration"):
        parse_duration(text)


def test_a_number_is_told_that_only_its_unit_is_missing() -> None:
    with pytest.raises(ValueError, match=r"^'900' is no duration: add a unit, such as 900s or 900m$"):
        parse_duration("900")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59.4, "59s"), (60, "1m"), (200, "3m 20s"), (7500, "2h 5m"), (7200, "2h"), (273600, "3d 4h")],
)
def test_what_people_read(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text

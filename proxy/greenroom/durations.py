"""Durations as people write them: `900s`, `15m`, `1h30m`, `2d`. A number without a unit is refused, not guessed at."""

import re

_UNITS_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_SCALE = ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s"))


def parse_duration(text: str) -> float:
    """Seconds of `1h30m` and the like; ValueError in words for anything else, zero included."""
    if not _WHOLE.fullmatch(text):
        if _NUMBER.fullmatch(text):
            raise ValueError(f"{text!r} is no duration: add a unit, such as {text}s or {text}m")
        raise ValueError(f"{text!r} is no duration such as 90s, 15m or 1h30m")
    seconds = sum(float(amount) * _UNITS_SECONDS[unit] for amount, unit in _PART.findall(text))
    if seconds <= 0:
        raise ValueError("a duration must be longer than nothing")
    return seconds


def format_duration(seconds: float) -> str:
    """A duration to be read at a glance, in its two largest units: `45s`, `3m 20s`, `2h 5m`, `3d 4h`."""
    whole = round(abs(seconds))
    for size, unit, smaller, smaller_unit in _SCALE:
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size}{unit} {rest}{smaller_unit}" if rest else f"{whole // size}{unit}"
    return f"{whole}s"

"""Text in columns: pure functions from rows to lines."""

from collections.abc import Sequence

GAP = "  "


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligned columns, no line longer than its text."""
    widths = [max(len(cell) for cell in column) for column in zip(headings, *rows, strict=True)]
    return [_line(cells, widths) for cells in (headings, *rows)]


def width(lines: Sequence[str]) -> int:
    """Of the longest line."""
    return max(map(len, lines), default=0)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return GAP.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def printable(text: str) -> str:
    """Without what a terminal would obey: names and reasons come from workers and checks."""
    return "".join(character if character.isprintable() or character == "\n" else "\ufffd" for character in text)


def indented(lines: Sequence[str], by: str = GAP) -> list[str]:
    """Each line further to the right."""
    return [f"{by}{line}" for line in lines]


def shortened(text: str, limit: int) -> str:
    """One line of at most `limit` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"

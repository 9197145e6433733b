"""Text in columns: pure functions from rows to lines."""

from collections.abc import Sequence

from rich.cells import cell_len

GAP = "  "


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligned columns, no line longer than its text, and one line a row whatever its cells hold."""
    lines = [[printable(cell) for cell in cells] for cells in (headings, *rows)]
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    return [_line(cells, widths) for cells in lines]


def width(lines: Sequence[str]) -> int:
    """Of the longest line, in columns of a terminal: some letters take two."""
    return max(map(cell_len, lines), default=0)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return GAP.join(cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)).rstrip()


def printable(line: str) -> str:
    """Without what a terminal would obey, line breaks too: names and reasons come from workers and checks."""
    return "".join(character if character.isprintable() else "\ufffd" for character in line)


def indented(lines: Sequence[str], by: str = GAP) -> list[str]:
    """Each line further to the right."""
    return [f"{by}{line}" for line in lines]


def shortened(text: str, limit: int) -> str:
    """One line of at most `limit` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"

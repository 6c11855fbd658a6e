"""Aligns text as Go's `text/tabwriter` does, which gives kubectl's descriptions their layout.

A cell ends with a tab. A column is a run of lines that have a cell at the same place, and is as wide as its widest cell
and two spaces.
"""

from collections.abc import Iterable
from typing import Final

from beehive.printable import printable

NONE: Final = "<none>"
_GAP: Final = 2
_INDENT: Final = "  "
_MOST_CELLS: Final = 16


class AlignedWriter:
    """The lines of a description."""

    def __init__(self) -> None:
        self._lines: list[list[str]] = []

    def row(self, level: int, *cells: object) -> None:
        """Add a line of cells, indented by two spaces for each level; control characters are made harmless."""
        texts = [printable(str(cell)) for cell in cells]
        if texts:
            texts[0] = _INDENT * level + texts[0]
        self._lines.append(texts)

    def field(self, level: int, name: str, value: object) -> None:
        """Add `name:` and a value; the further lines of a text come below its first."""
        first, *rest = str(value).split("\n") if isinstance(value, str) else [str(value)]
        self.row(level, f"{name}:", first)
        for line in rest:
            self.row(level, "", line)

    def given(self, level: int, pairs: Iterable[tuple[str, object]]) -> None:
        """Add those of several fields that have a value."""
        self.fields(level, (pair for pair in pairs if pair[1]))

    def head(self, level: int, *titles: str) -> None:
        """Add the titles of a table, underlined."""
        self.row(level, *titles)
        self.row(level, *("-" * len(title) for title in titles))

    def fields(self, level: int, pairs: Iterable[tuple[str, object]]) -> None:
        """Add several fields."""
        for name, value in pairs:
            self.field(level, name, value)

    def values(self, level: int, name: str, values: Iterable[object]) -> None:
        """Add `name:` with one value on each line, or `<none>`."""
        title = f"{name}:"
        for value in list(values) or [NONE]:
            self.row(level, title, value)
            title = ""

    def text(self) -> str:
        """Return the aligned text, with a line break after each line."""
        return "".join(f"{line}\n" for line in _aligned(self._lines))


def _aligned(lines: list[list[str]]) -> list[str]:
    """Return the lines with their cells padded, column by column from the left."""
    widths = [[0] * (len(line) - 1) for line in lines]
    for column in range(_MOST_CELLS):
        start = 0
        while start < len(lines):
            end = start
            while end < len(lines) and len(widths[end]) > column:
                end += 1
            widest = max((len(lines[place][column]) for place in range(start, end)), default=0)
            for place in range(start, end):
                widths[place][column] = widest + _GAP
            start = max(end, start + 1)
    return [_padded(cells, wanted) for cells, wanted in zip(lines, widths, strict=True)]


def _padded(cells: list[str], widths: list[int]) -> str:
    return "".join(cell.ljust(width) for cell, width in zip(cells, [*widths, 0], strict=False))

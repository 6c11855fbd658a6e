"""Output of the demo: a table in place on a terminal, in a pipe a line for each change.

It needs only two ANSI sequences, cursor up and erase below, which all terminals have.
"""

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TextIO

from modules.processes.demo.rows import Row, line_of, table_of

_ERASE_BELOW = "\x1b[J"
_BOLD, _GREEN, _PLAIN = "\x1b[1m", "\x1b[32m", "\x1b[0m"


class Screen(ABC):
    """A screen for rows, and lines that stay."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    @abstractmethod
    def show(self, rows: Sequence[Row]) -> None:
        """Show the current rows."""

    @abstractmethod
    def print_lines(self, *lines: str) -> None:
        """Print lines that stay."""

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


class Terminal(Screen):
    """A terminal whose table is redrawn in place; other lines appear above it."""

    def __init__(self, out: TextIO) -> None:
        super().__init__(out)
        self._table: list[str] = []

    def show(self, rows: Sequence[Row]) -> None:
        """Redraw the table."""
        lines = table_of(rows, max(20, shutil.get_terminal_size().columns - 1))
        head, body = f"{_BOLD}{lines[0]}{_PLAIN}", lines[1:]
        coloured = [f"{_GREEN}{line}{_PLAIN}" if row.there else line for row, line in zip(rows, body, strict=True)]
        self._redraw([head, *coloured])

    def print_lines(self, *lines: str) -> None:
        """Print above the table."""
        table = self._table
        self._redraw([])
        self._write("".join(f"{line}\n" for line in lines))
        self._redraw(table)

    def _redraw(self, lines: list[str]) -> None:
        up = f"\x1b[{len(self._table)}A\r" if self._table else ""
        self._write(f"{up}{_ERASE_BELOW if self._table else ''}" + "".join(f"{line}\n" for line in lines))
        self._table = lines


class Pipe(Screen):
    """A pipe, with a line for each pod that has changed in more than its age."""

    def __init__(self, out: TextIO) -> None:
        super().__init__(out)
        self._shown: dict[str, Row] = {}

    def show(self, rows: Sequence[Row]) -> None:
        """Print the changes since the last call."""
        for row in rows:
            ageless = row._replace(age="")
            if row.phase != "-" and self._shown.get(row.name) != ageless:
                self._shown[row.name] = ageless
                self._write(f"{line_of(row)}\n")

    def print_lines(self, *lines: str) -> None:
        """Print lines."""
        self._write("".join(f"{line}\n" for line in lines))


def screen_for(out: TextIO) -> Screen:
    """Return the screen for an output."""
    capable = out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return Terminal(out) if capable else Pipe(out)

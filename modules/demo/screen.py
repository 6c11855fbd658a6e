"""Where the demo's table appears: in place on a terminal; in a pipe as one line for each change.

Plain ANSI: cursor up and erase below are all that is needed, and every terminal of the last forty years has them.
"""

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TextIO

from modules.demo.rows import Row, line_of, table_of

_ERASE_BELOW = "\x1b[J"
_BOLD, _GREEN, _PLAIN = "\x1b[1m", "\x1b[32m", "\x1b[0m"


class Screen(ABC):
    """Shows rows, and lines that stay."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    @abstractmethod
    def show(self, rows: Sequence[Row]) -> None:
        """The rows as they are now."""

    @abstractmethod
    def say(self, *lines: str) -> None:
        """Lines that stay."""

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


class Terminal(Screen):
    """Redraws the table in place; what is said appears above it."""

    def __init__(self, out: TextIO) -> None:
        super().__init__(out)
        self._table: list[str] = []

    def show(self, rows: Sequence[Row]) -> None:
        """Draws the table anew where it was."""
        lines = table_of(rows, max(20, shutil.get_terminal_size().columns - 1))
        head, body = f"{_BOLD}{lines[0]}{_PLAIN}", lines[1:]
        coloured = [f"{_GREEN}{line}{_PLAIN}" if row.there else line for row, line in zip(rows, body, strict=True)]
        self._redraw([head, *coloured])

    def say(self, *lines: str) -> None:
        """Writes above the table."""
        table = self._table
        self._redraw([])
        self._write("".join(f"{line}\n" for line in lines))
        self._redraw(table)

    def _redraw(self, lines: list[str]) -> None:
        up = f"\x1b[{len(self._table)}A\r" if self._table else ""
        self._write(f"{up}{_ERASE_BELOW if self._table else ''}" + "".join(f"{line}\n" for line in lines))
        self._table = lines


class Pipe(Screen):
    """A line for each pod whose row has changed in more than its age."""

    def __init__(self, out: TextIO) -> None:
        super().__init__(out)
        self._shown: dict[str, Row] = {}

    def show(self, rows: Sequence[Row]) -> None:
        """Writes what has changed since the last time."""
        for row in rows:
            ageless = row._replace(age="")
            if row.phase != "-" and self._shown.get(row.name) != ageless:
                self._shown[row.name] = ageless
                self._write(f"{line_of(row)}\n")

    def say(self, *lines: str) -> None:
        """Writes them."""
        self._write("".join(f"{line}\n" for line in lines))


def screen_for(out: TextIO) -> Screen:
    """The right screen for an output."""
    capable = out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return Terminal(out) if capable else Pipe(out)

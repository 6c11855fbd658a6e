"""Tables of objects as kubectl lays them out, with colours and cut to the width of a terminal."""

import os
import re
import shutil
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

from beehive.printable import printable
from modules.apimachinery.printing.columns import NONE, Column
from modules.apimachinery.printing.fields import JsonObject, map_at, text_at
from modules.apimachinery.printing.terminal import print_lines

_GAP: Final = "   "
_CUT: Final = ("DESIRED", "LABELS", "MESSAGE", "VALUES")
"""Titles of columns that are cut where they end a row that is too long."""
_LEAST: Final = 12
"""Characters that stay of a cell that is cut."""

_GREEN, _YELLOW, _RED, _DIM, _BOLD, _END = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[2m", "\x1b[1m", "\x1b[0m"
_COLOURED: Final = ("STATUS", "TYPE", "READY", "RESTARTS", "PHASE", "CONDITION")
_WORDS: Final = (
    (_DIM, re.compile(r"Completed|Succeeded|Normal")),
    (_GREEN, re.compile(r"Running|Ready|Active|Bound|Available|Approved,Issued|ok")),
    (_YELLOW, re.compile(r"Warning|Pending|Terminating|ContainerCreating|PodInitializing|NotReady|Init:\d+/\d+"
                         r"|Ready,SchedulingDisabled|SchedulingGated|Released|Unknown|Approved")),
    (_RED, re.compile(r".*(?:Err|Error|BackOff|Failed|Evicted|OOMKilled|Lost|Invalid|CannotRun|Denied|Admission)\S*"
                      r"|(?:Init:)?(?:ExitCode|Signal):.*|NotReady,.*|OutOf\w+|DeadlineExceeded|ContainerStatusUnknown")),
)  # fmt: skip
_ENDED: Final = ("Completed", "Succeeded")
"""States where no container is ready, as it should be."""
_LONGEST_COLOURED: Final = 256
"""Characters of a cell whose words are looked for: 40 kB of a node took two seconds, and more by the square."""
_NOT_READY: Final = re.compile(r"(\d+)/(?!\1$)\d+")


class TableOptions(NamedTuple):
    """The choice of a table's columns."""

    wide: bool = False
    """Whether it has the columns of `-o wide`."""
    namespaces: bool = False
    """Whether the namespace comes first."""
    labels: bool = False
    """Whether all labels come last."""
    label_columns: tuple[str, ...] = ()
    """Labels that have columns of their own."""
    kinds: bool = False
    """Whether names have their kind before them: `pod/web`."""


class LaidOut(NamedTuple):
    """Titles and cells."""

    head: list[str]
    rows: list[list[str]]


def layout(
    all_columns: Sequence[Column], objects: Sequence[JsonObject], now: float, options: TableOptions, prefix: str = ""
) -> LaidOut:
    """Return the table of objects of one kind.

    Args:
        all_columns: the columns of the kind, also `-o wide`'s.
        objects: the rows.
        now: seconds since the epoch, for ages.
        options: which columns there are.
        prefix: stands before each name with `options.kinds`: `pod/`.
    """
    columns = [column for column in all_columns if options.wide or not column.wide]
    if options.namespaces:
        columns.insert(0, Column("Namespace", lambda obj, _: text_at(obj, "metadata.namespace")))
    columns += [_label_column(name) for name in options.label_columns]
    if options.labels:
        columns.append(Column("Labels", _labels))
    head = [column.title.upper() for column in columns]
    rows = [[printable(_text(column.cell(obj, now))) for column in columns] for obj in objects]
    if options.kinds and "NAME" in head:
        place = head.index("NAME")
        for row in rows:
            row[place] = f"{prefix}{row[place]}"
    return LaidOut(head, rows)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows as printable lines with aligned columns, three spaces between them."""
    widths: list[int] = []
    shown = [[printable(cell) for cell in row] for row in rows]
    _widen(shown, widths)
    return [_line(row, row, widths) for row in shown]


class TableWriter:
    """A printer of rows on standard output: aligned, on a terminal cut and in colours.

    Args:
        colours: `auto` (on a terminal, unless NO_COLOR is set), `always` or `never`.
        cut: whether messages are cut where standard output is a terminal.
    """

    def __init__(self, colours: str = "auto", *, cut: bool = True) -> None:
        terminal = sys.stdout.isatty()
        self._colours = colours == "always" or (colours == "auto" and terminal and not os.environ.get("NO_COLOR"))
        self._width = shutil.get_terminal_size().columns if cut and terminal else 0
        self._widths: list[int] = []

    def write(self, head: Sequence[str], rows: Sequence[Sequence[str]], *, with_head: bool = True) -> None:
        """Print rows below the head, or without it; columns keep their widths for the next rows."""
        shown = [list(head), *map(list, rows)] if with_head else [list(row) for row in rows]
        if self._width and head and head[-1] in _CUT:
            self._cut(shown, [list(head), *rows])
        _widen(shown, self._widths)
        for number, row in enumerate(shown):
            painted = self._painted(head, row, is_head=with_head and number == 0)
            print_lines([_line(row, painted, self._widths)], colours=self._colours)

    def start_over(self) -> None:
        """Forget the widths: another table follows."""
        self._widths = []

    def _cut(self, shown: list[list[str]], all_rows: Sequence[Sequence[str]]) -> None:
        before = list(self._widths[:-1])
        _widen([row[:-1] for row in all_rows], before)
        room = max(_LEAST, self._width - sum(before) - len(_GAP) * len(before))
        for row in shown:
            if len(row[-1]) > room:
                row[-1] = f"{row[-1][: room - 1]}…"

    def _painted(self, head: Sequence[str], row: Sequence[str], *, is_head: bool) -> list[str]:
        if not self._colours:
            return list(row)
        if is_head:
            return [f"{_BOLD}{cell}{_END}" for cell in row]
        ended = any(word in row for word in _ENDED)
        cells = zip(head, row, strict=False)
        return [cell if ended and title == "READY" else _coloured(title, cell) for title, cell in cells]


def _coloured(title: str, cell: str) -> str:
    if title not in _COLOURED or len(cell) > _LONGEST_COLOURED:
        return cell
    if title == "READY":
        return f"{_YELLOW}{cell}{_END}" if _NOT_READY.fullmatch(cell) else cell
    if title == "RESTARTS":
        return f"{_YELLOW}{cell}{_END}" if cell not in ("", "0") else cell
    colour = next((colour for colour, words in _WORDS if words.fullmatch(cell)), "")
    return f"{colour}{cell}{_END}" if colour else cell


def _widen(rows: Sequence[Sequence[str]], widths: list[int]) -> None:
    for row in rows:
        widths.extend([0] * (len(row) - len(widths)))
        for place, cell in enumerate(row):
            widths[place] = max(widths[place], len(cell))


def _line(row: Sequence[str], painted: Sequence[str], widths: Sequence[int]) -> str:
    """Join painted cells, padded by the difference between plain text and width; the last text is not padded."""
    last = max((place for place, cell in enumerate(row) if cell), default=-1)
    parts = [
        shown if place == last else shown + " " * (widths[place] - len(cell))
        for place, (cell, shown) in enumerate(zip(row[: last + 1], painted, strict=False))
    ]
    return _GAP.join(parts)


def _text(cell: str | float | None) -> str:
    if cell is None:
        return ""
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


def _label_column(name: str) -> Column:
    title = name.rpartition("/")[2]
    return Column(title, lambda obj, _: str(map_at(obj, "metadata.labels").get(name, "")))


def _labels(obj: JsonObject, _: float) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(map_at(obj, "metadata.labels").items())) or NONE

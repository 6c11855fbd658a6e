"""The cells of the table of pods for a width of the screen. Pure."""

from typing import Final, NamedTuple

from beehive.printable import printable
from modules.processes.edgecore.top.amounts import duration, mebibytes, millicores
from modules.processes.edgecore.top.pod_rows import PodRow, SortKey
from modules.processes.edgecore.top.spans import Tone

WIDE: Final = 110
"""Characters of a screen above which reasons are in the table."""

_LEAST_NAME: Final = 12
_LEAST_REASON: Final = 10
_MOST_STATUS: Final = 26


class Cell(NamedTuple):
    """A cell: its text, harmless and cut to the width of its column."""

    text: str
    tone: Tone = Tone.PLAIN


class TableColumn(NamedTuple):
    """A column."""

    title: str
    width: int
    right: bool = False
    """Whether it is aligned to the right."""
    key: SortKey | None = None


class PodTable(NamedTuple):
    """The whole table."""

    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]


def pod_table(rows: list[PodRow], width: int, *, stale: bool = False) -> PodTable:
    """Return the table for a width in characters, with one character between two columns.

    Args:
        rows: in their order.
        width: of the table.
        stale: the node does not answer: no colours.
    """
    wide = width >= WIDE
    cells = [_cells(row, wide=wide, stale=stale) for row in rows]
    titles = ("POD", "READY", "STATUS", "RESTARTS", "CPU", "MEMORY", "AGE", *(("WHY",) if wide else ()))
    widths = [max([len(title), *(len(row[place].text) for row in cells)]) for place, title in enumerate(titles)]
    widths[2] = min(_MOST_STATUS, max(widths[2], len("Running") + 2))
    gap = 2 if wide else 1
    fixed = sum(widths[1:7]) + gap * (len(titles) - 1)
    if wide:
        widths[0] = max(_LEAST_NAME, min(widths[0], (width - fixed) * 2 // 3))
        widths[7] = max(_LEAST_REASON, width - fixed - widths[0])
    else:
        widths[0] = max(_LEAST_NAME, width - fixed)
    shown = tuple(
        tuple(Cell(_cut(cell.text, size), cell.tone) for cell, size in zip(row, widths, strict=True)) for row in cells
    )
    last = len(titles) - 1
    columns = tuple(
        TableColumn(title, size + (gap if place < last else 0), title in _RIGHT, _KEYS.get(title))
        for place, (title, size) in enumerate(zip(titles, widths, strict=True))
    )
    pads = [gap if place < last else 0 for place in range(len(titles))]
    return PodTable(columns, tuple(_aligned(row, columns, pads) for row in shown))


_RIGHT: Final = frozenset({"CPU", "MEMORY"})
_KEYS: Final = {
    "POD": SortKey.NAME, "STATUS": SortKey.STATUS, "RESTARTS": SortKey.RESTARTS, "CPU": SortKey.CPU,
    "MEMORY": SortKey.MEMORY, "AGE": SortKey.AGE,
}  # fmt: skip


def _aligned(row: tuple[Cell, ...], columns: tuple[TableColumn, ...], pads: list[int]) -> tuple[Cell, ...]:
    return tuple(
        Cell(cell.text.rjust(column.width - pad) if column.right else cell.text, cell.tone)
        for cell, column, pad in zip(row, columns, pads, strict=True)
    )


def _cells(row: PodRow, *, wide: bool, stale: bool) -> tuple[Cell, ...]:
    cells = [
        Cell(row.title, Tone.PLAIN if row.tone is not Tone.FAINT else Tone.FAINT),
        Cell(row.ready, row.tone if row.tone in (Tone.BUSY, Tone.BAD) else Tone.PLAIN),
        Cell(row.status, row.tone),
        Cell(_restarts(row, wide=wide), Tone.BUSY if row.restarts else Tone.FAINT),
        Cell(millicores(row.cpu), Tone.FAINT if not row.cpu else Tone.PLAIN),
        Cell(mebibytes(row.memory), Tone.FAINT if not row.memory else Tone.PLAIN),
        Cell("?" if row.age is None else duration(row.age)),
    ]
    if wide:
        cells.append(Cell(row.reason, row.tone if row.tone in (Tone.BAD, Tone.BUSY) else Tone.FAINT))
    return tuple(Cell(_one_line(cell.text), Tone.FAINT if stale else cell.tone) for cell in cells)


def _restarts(row: PodRow, *, wide: bool) -> str:
    if not row.restarts or row.restarted is None:
        return str(row.restarts)
    return f"{row.restarts} ({duration(row.restarted)}{' ago' if wide else ''})"


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"

"""kubectl's tables of one's own columns: `-o custom-columns=NAME:.metadata.name,…` and `-o custom-columns-file=…`."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from beehive.printable import clipped, printable
from modules.apimachinery.go_values import go_text
from modules.cli.errors import KubectlError
from modules.kubectl.jsonpath import JsonPath, relaxed

NONE: Final = "<none>"
_GAP: Final = 3
_NARROWEST: Final = 6
_MOST: Final = 256


class ColumnsError(KubectlError):
    """A description of columns that cannot be read; the text is kubectl's, in one line."""


class CustomColumn(NamedTuple):
    """One column."""

    title: str
    path: JsonPath

    def cell(self, obj: Any) -> str:
        """Return the results for an object, separated by commas. Raises JsonPathError."""
        values = self.path.values(obj)
        return ",".join(printable(go_text(value)) for value in values) if values else NONE


def read_columns(spec: str) -> list[CustomColumn]:
    """Return the columns of `TITLE:PATH,TITLE:PATH,…`.

    Raises:
        ColumnsError: the description is empty, or a part of it has no path.
        JsonPathError: a path cannot be read.
    """
    if not spec:
        raise ColumnsError("custom-columns format specified but no custom columns given")
    columns: list[CustomColumn] = []
    for part in spec.split(","):
        title, colon, path = part.partition(":")
        if not colon or not path:
            shown = clipped(part)
            raise ColumnsError(f"unexpected custom-columns spec: {shown}, expected <header>:<json-path-expr>")
        columns.append(_column(title, path, len(columns)))
    return columns


def read_columns_file(text: str) -> list[CustomColumn]:
    """Return the columns of a file: titles on the first line, as many paths on the second.

    Raises:
        ColumnsError: the file has another form.
        JsonPathError: a path cannot be read.
    """
    titles, paths = ((*map(str.split, text.splitlines()[:2]), [], [])[place] for place in (0, 1))
    if not titles or not paths:
        raise ColumnsError(
            f"invalid template, missing {'spec' if titles else 'header'} line. Expected format is one line of space "
            "separated headers, one line of space separated column specs."
        )
    if len(titles) != len(paths):
        raise ColumnsError(f"number of headers ({len(titles)}) and field specifications ({len(paths)}) don't match")
    return [_column(title, path, place) for place, (title, path) in enumerate(zip(titles, paths, strict=True))]


def table_of(columns: Sequence[CustomColumn], objects: Iterable[Any], *, headers: bool = True) -> list[str]:
    """Return the lines of a table.

    Args:
        columns: the columns.
        objects: the objects, of JSON's types.
        headers: whether the titles come first.

    Raises:
        JsonPathError: a path does not fit an object.
    """
    rows = [[column.cell(obj) for column in columns] for obj in objects]
    if headers:
        rows.insert(0, [printable(column.title) for column in columns])
    widths = [max(_NARROWEST, _GAP + max(map(len, cells))) for cells in zip(*rows, strict=True)]
    return [_line(row, widths) for row in rows]


def _column(title: str, path: str, place: int) -> CustomColumn:
    if place >= _MOST:
        raise ColumnsError(f"more than {_MOST} custom columns")
    return CustomColumn(title, JsonPath(relaxed(path)))


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
    return "".join((*padded, row[-1]))

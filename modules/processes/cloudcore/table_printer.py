"""Tables of objects as kubectl prints them."""

from collections.abc import Sequence

from beehive.printable import printable
from modules.cloud.apiserver.kinds import JsonObject, Kind
from modules.tools.printing.columns import Column, columns_of
from modules.tools.printing.fields import text_at

_NAMESPACE = Column("Namespace", lambda obj, _: text_at(obj, "metadata.namespace"))


def table(
    kind: Kind,
    objects: Sequence[JsonObject],
    now: float,
    *,
    wide: bool = False,
    namespaces: bool = False,
) -> list[list[str]]:
    """Return the head and the rows of a table.

    Args:
        kind: the kind of all objects.
        objects: the rows.
        now: seconds since the epoch, for ages.
        wide: whether to show all columns.
        namespaces: whether to show the namespace first.
    """
    columns = [column for column in columns_of(kind.name) if wide or not column.wide]
    if namespaces and kind.namespaced:
        columns.insert(0, _NAMESPACE)
    head = [column.title.upper() for column in columns]
    return [head, *(_row(columns, obj, now) for obj in objects)]


def _row(columns: Sequence[Column], obj: JsonObject, now: float) -> list[str]:
    return [printable(str(column.cell(obj, now))) for column in columns]


def aligned(rows: Sequence[Sequence[str]], widths: list[int] | None = None) -> list[str]:
    """Return the rows as lines with aligned columns, three spaces between them.

    `widths` is updated, so that the rows of a watch, printed one by one, stay aligned.
    """
    widths = widths if widths is not None else []
    for row in rows:
        widths.extend([0] * (len(row) - len(widths)))
        widths[:] = [max(width, len(cell)) for width, cell in zip(widths, row, strict=False)]
    return ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows]

"""Tables of objects as kubectl prints them."""

from collections.abc import Collection, Sequence

from beehive.text import printable
from modules.edgecontroller.kinds import JsonObject, Kind
from modules.printing.columns import Column, columns_of
from modules.printing.fields import text_at

_LEASE_SECONDS = 40
"""A kubelet's lease duration."""
_LONGEST_LEASE = 300
"""So long a node that says so may be silent; longer ones would never be missed."""

_NAMESPACE = Column("Namespace", lambda obj, _: text_at(obj, "metadata.namespace"))


def table(
    kind: Kind,
    objects: Sequence[JsonObject],
    now: float,
    *,
    wide: bool = False,
    namespaces: bool = False,
    silent: Collection[str] = (),
) -> list[list[str]]:
    """Head and rows.

    Args:
        kind: of all the objects.
        objects: the rows.
        now: seconds since the epoch, for ages.
        wide: with all columns.
        namespaces: with the namespace in front.
        silent: names of nodes that have not renewed their lease in time.
    """
    columns = [column for column in columns_of(kind.name) if wide or not column.wide]
    if namespaces and kind.namespaced:
        columns.insert(0, _NAMESPACE)
    head = [column.title.upper() for column in columns]
    return [head, *(_row(columns, obj, now, silent=obj["metadata"]["name"] in silent) for obj in objects)]


def _row(columns: Sequence[Column], obj: JsonObject, now: float, *, silent: bool) -> list[str]:
    cells = [printable(str(column.cell(obj, now))) for column in columns]
    return [cell.replace("Ready", "NotReady") if silent and cell.startswith("Ready") else cell for cell in cells]


def aligned(rows: Sequence[Sequence[str]], widths: list[int] | None = None) -> list[str]:
    """The rows as lines with aligned columns, three spaces between them.

    `widths` are kept and widened from call to call, for tables whose rows come one by one.
    """
    widths = widths if widths is not None else []
    for row in rows:
        widths.extend([0] * (len(row) - len(widths)))
        widths[:] = [max(width, len(cell)) for width, cell in zip(widths, row, strict=False)]
    return ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows]


def silent_nodes(leases: Sequence[tuple[JsonObject, float]]) -> set[str]:
    """Nodes whose lease has run out: what they last said of themselves is not true any more.

    A cluster's node controller writes this into the node's conditions; nobody does so here. Like that controller, this
    goes by when the cloud saw the lease change: the node's own clock may be anything.

    Args:
        leases: with the seconds since the cloud saw each change.
    """
    return {lease["metadata"]["name"] for lease, seconds in leases if seconds > _seconds_of(lease)}


def _seconds_of(lease: JsonObject) -> int:
    duration = (lease.get("spec") or {}).get("leaseDurationSeconds")
    return min(duration, _LONGEST_LEASE) if isinstance(duration, int) and duration > 0 else _LEASE_SECONDS

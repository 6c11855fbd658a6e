"""Tables of objects as kubectl prints them."""

from collections.abc import Collection, Sequence

from beehive.printable import printable
from modules.cloud.apiserver.kinds import JsonObject, Kind
from modules.tools.printing.columns import Column, columns_of
from modules.tools.printing.fields import text_at

_LEASE_SECONDS = 40
"""A kubelet's lease duration."""
_LONGEST_LEASE = 300
"""Longest lease duration that counts; a node with a longer one would never be shown as silent."""

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
    """Return the head and the rows of a table.

    Args:
        kind: the kind of all objects.
        objects: the rows.
        now: seconds since the epoch, for ages.
        wide: whether to show all columns.
        namespaces: whether to show the namespace first.
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
    """Return the rows as lines with aligned columns, three spaces between them.

    `widths` is updated, so that the rows of a watch, printed one by one, stay aligned.
    """
    widths = widths if widths is not None else []
    for row in rows:
        widths.extend([0] * (len(row) - len(widths)))
        widths[:] = [max(width, len(cell)) for width, cell in zip(widths, row, strict=False)]
    return ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows]


def silent_nodes(leases: Sequence[tuple[JsonObject, float]]) -> set[str]:
    """Return the nodes whose lease has expired, so that their last status is outdated.

    Kubernetes' node controller writes this into the node's conditions; cloudcore has none. Like that controller, this
    function uses the time at which the cloud received the lease, as the node's clock may be wrong.

    Args:
        leases: leases, with the seconds since the last change of each.
    """
    return {lease["metadata"]["name"] for lease, seconds in leases if seconds > _seconds_of(lease)}


def _seconds_of(lease: JsonObject) -> int:
    duration = (lease.get("spec") or {}).get("leaseDurationSeconds")
    return min(duration, _LONGEST_LEASE) if isinstance(duration, int) and duration > 0 else _LEASE_SECONDS

"""Writing rows, with the same SQL for every database."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Table, and_, bindparam, delete, insert, or_, update

from modules.cloud.apiserver.database.tables import epochs
from modules.cloud.apiserver.object_sync import Epoch


def replace_rows(
    connection: Connection,
    table: Table,
    primary: tuple[str, ...],
    keys: list[dict[str, Any]],
    rows: Iterable[dict[str, Any]] = (),
) -> None:
    """Delete the rows with these keys, and insert others.

    Args:
        connection: in a transaction.
        table: the table.
        primary: the columns of the keys.
        keys: their values, with `k_` before the columns' names.
        rows: new rows.
    """
    if not keys:
        return
    where = and_(*(table.c[name] == bindparam(f"k_{name}") for name in primary))
    connection.execute(delete(table).where(where), keys)
    new = list(rows)
    if new:
        connection.execute(insert(table), new)


def put_epoch(connection: Connection, epoch: Epoch) -> None:
    """Write the newest epoch and version, unless another cloudcore has written a later one."""
    is_same = and_(epochs.c.epoch == epoch.number, epochs.c.newest < epoch.newest)
    is_newer = or_(epochs.c.epoch < epoch.number, is_same)
    connection.execute(update(epochs).where(is_newer).values(epoch=epoch.number, newest=epoch.newest))

"""Writing rows, with the same SQL for every database, rendered once.

Rendering a statement, or finding it in SQLAlchemy's cache, takes several times as long as SQLite needs to carry it out.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from operator import itemgetter
from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    BindParameter,
    Connection,
    Delete,
    Dialect,
    Insert,
    Table,
    Update,
    and_,
    bindparam,
    cast,
    delete,
    exists,
    insert,
    or_,
    select,
    update,
)

from modules.cloud.storage.database.pending import PendingWrites
from modules.cloud.storage.database.tables import (
    changes,
    epochs,
    history,
    node_states,
    object_syncs,
    objects,
    sessions,
    signing_keys,
    state,
)
from modules.cloud.storage.object_sync import Epoch


class Statement:
    """A statement as a database's driver takes it.

    Args:
        statement: with `bindparam`s only.
        dialect: of the database.
    """

    def __init__(self, statement: Delete | Insert | Update, dialect: Dialect) -> None:
        compiled = statement.compile(dialect=dialect)
        self._text = str(compiled)
        order: Sequence[str] | None = compiled.positiontup
        self._ordered = None if order is None else _values_at(order)
        """Returns the parameters in their order, if the driver takes them by their places."""

    def execute(self, driver: Any, parameters: list[dict[str, Any]]) -> None:
        """Execute the statement once for each set of parameters, by name, in a transaction that has begun.

        Args:
            driver: the driver's own connection.
            parameters: the sets.

        Raises:
            Exception: the driver's own error.
        """
        given: list[Any] = parameters if self._ordered is None else list(map(self._ordered, parameters))
        cursor = driver.cursor()
        try:
            cursor.executemany(self._text, given)
        finally:
            cursor.close()


def _values_at(names: Sequence[str]) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    """Return a function that returns some members of a dictionary, in C: it is called for each row."""
    if len(names) > 1:
        return itemgetter(*names)
    (name,) = names
    return lambda row: (row[name],)


class RowReplacement:
    """Deletes rows of a table by some of its columns, and inserts others.

    Args:
        table: the table.
        primary: the columns.
        dialect: of the database.
    """

    def __init__(self, table: Table, primary: tuple[str, ...], dialect: Dialect) -> None:
        self._parameters = tuple(f"k_{name}" for name in primary)
        where = and_(*(table.c[name] == bindparam(f"k_{name}") for name in primary))
        self._delete = Statement(delete(table).where(where), dialect)
        self._insert = Statement(insert(table), dialect)

    def replace(self, driver: Any, keys: Collection[tuple[str, ...]], rows: Iterable[dict[str, Any]] = ()) -> None:
        """Delete the rows with these keys, and insert others.

        Args:
            driver: the driver's own connection, in a transaction.
            keys: the values of the columns.
            rows: new rows.
        """
        old = [dict(zip(self._parameters, key, strict=True)) for key in keys]
        self._delete.execute(driver, old)
        new = list(rows)
        if new:
            self._insert.execute(driver, new)


class RowWriter:
    """Writes the rows of a transaction. Rows are deleted and inserted, not updated: the same SQL for every database.

    Args:
        dialect: of the database.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._objects = RowReplacement(objects, ("kind", "namespace", "name"), dialect)
        self._changes = Statement(insert(changes), dialect)
        self._raise_began = Statement(_later_began(), dialect)
        self._add_began = Statement(_first_began(), dialect)
        forgotten = and_(changes.c.kind == bindparam("of_kind"), changes.c.revision <= bindparam("until"))
        self._forget = Statement(delete(changes).where(forgotten), dialect)
        self._syncs = RowReplacement(object_syncs, ("node", "uid"), dialect)
        self._syncs_of_node = RowReplacement(object_syncs, ("node",), dialect)
        self._node_states = RowReplacement(node_states, ("node",), dialect)
        self._sessions = RowReplacement(sessions, ("node",), dialect)
        self._signing_keys = RowReplacement(signing_keys, ("key_id",), dialect)
        self._revision = Statement(update(state).values(revision=bindparam("newest")), dialect)
        self._epoch = Statement(_later_epoch(), dialect)

    def write(self, driver: Any, pending: PendingWrites, version: int, cloudcore: str) -> None:
        """Write the rows and the newest resourceVersion on a driver's connection; nodes are claimed for a cloudcore."""
        if pending.objects:
            self._objects.replace(driver, pending.objects, pending.objects.values())
        if pending.changes:
            self._changes.execute(driver, pending.changes)
        if pending.history:
            self._forget.execute(driver, [{"of_kind": kind, "until": until} for kind, until in pending.history.items()])
        began = [{"of_kind": kind, "until": until} for kind, until in (pending.history | pending.gaps).items()]
        if began:
            self._raise_began.execute(driver, began)
            self._add_began.execute(driver, began)
        if pending.has_nodes:
            self._write_nodes(driver, pending, cloudcore)
        if pending.epoch is not None:
            self._put_epoch(driver, pending.epoch)
        if pending.signing_keys:
            keys = (msgspec.structs.asdict(key) for key in pending.signing_keys.values() if key is not None)
            self._signing_keys.replace(driver, [(key_id,) for key_id in pending.signing_keys], keys)
        self._revision.execute(driver, [{"newest": version}])

    def _write_nodes(self, driver: Any, pending: PendingWrites, cloudcore: str) -> None:
        """Write the versions that nodes have acknowledged, their states and their claims; deletions go first."""
        if pending.forgotten:
            forgotten = [(node,) for node in sorted(pending.forgotten)]
            self._syncs_of_node.replace(driver, forgotten)
            self._node_states.replace(driver, forgotten)
        if pending.released:
            self._sessions.replace(driver, [(node,) for node in sorted(pending.released)])
        syncs = {(node, uid): sync for node, each in pending.object_syncs.items() for uid, sync in each.items()}
        if syncs:
            synced = ({"node": node, "uid": uid, **sync.key._asdict(), "version": sync.version}
                    for (node, uid), sync in syncs.items() if sync is not None)  # fmt: skip
            self._syncs.replace(driver, syncs, synced)
        if pending.node_states:
            states = ({"node": node, "node_uid": each.uid, "epoch": each.epoch}
                      for node, each in pending.node_states.items())  # fmt: skip
            self._node_states.replace(driver, [(node,) for node in pending.node_states], states)
        if pending.sessions:
            claims = ({"node": node, "cloudcore": cloudcore, "revision": revision, "connected_at": connected_at}
                      for node, (revision, connected_at) in pending.sessions.items())  # fmt: skip
            self._sessions.replace(driver, [(node,) for node in pending.sessions], claims)

    def _put_epoch(self, driver: Any, epoch: Epoch) -> None:
        """Write the newest epoch and version, unless another cloudcore has written a later one."""
        self._epoch.execute(driver, [{"new_epoch": epoch.number, "new_newest": epoch.newest}])


def _later_began() -> Update:
    """Return the statement that lets a kind's history begin later: it never begins before a gap again."""
    until: BindParameter[int] = bindparam("until")
    return update(history).where(history.c.kind == bindparam("of_kind"), history.c.began < until).values(began=until)


def _first_began() -> Insert:
    kind: BindParameter[str] = bindparam("of_kind")
    until: BindParameter[int] = bindparam("until")
    row = select(cast(kind, history.c.kind.type), cast(until, BigInteger))
    absent = ~exists().where(history.c.kind == kind)
    return insert(history).from_select(["kind", "began"], row.where(absent))


def _later_epoch() -> Update:
    epoch: BindParameter[int] = bindparam("new_epoch")
    newest: BindParameter[int] = bindparam("new_newest")
    is_same = and_(epochs.c.epoch == epoch, epochs.c.newest < newest)
    return update(epochs).where(or_(epochs.c.epoch < epoch, is_same)).values(epoch=epoch, newest=newest)


def forget_deletions(connection: Connection, until: int) -> None:
    """Delete the rows of objects that were deleted up to a revision."""
    if until > 0:
        connection.execute(delete(objects).where(objects.c.body.is_(None), objects.c.revision <= until))
        connection.execute(update(state).values(compacted=until))

"""Writing rows, with SQL that is rendered once for each driver.

Rendering a statement, or finding it in SQLAlchemy's cache, takes several times as long as SQLite needs to carry it out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

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
from sqlalchemy.dialects import postgresql, sqlite

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
from modules.cloud.storage.object_sync import Epoch, milliseconds

_INSERTS: Final[Mapping[str, Callable[[Table], Any]]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
"""`INSERT … ON CONFLICT … DO UPDATE` is written alike for both, and is no standard SQL."""
_IS_OF_NODE: Final = object_syncs.c.node == bindparam("node")


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

    def execute(self, driver: Any, parameters: Iterable[dict[str, Any]]) -> None:
        """Execute the statement once for each set of parameters, by name, in a transaction that has begun.

        Args:
            driver: the driver's own connection.
            parameters: the sets.

        Raises:
            Exception: the driver's own error.
        """
        given: list[Any] = list(parameters if self._ordered is None else map(self._ordered, parameters))
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


class RowsByKey:
    """The rows of a table, put in the places of those with the same primary key, or deleted by it.

    A row that is put in the place of another stays where it is in the file: deleted and inserted again, it would be
    written to the end of the table, and its key to each index.

    Args:
        table: the table.
        dialect: of SQLite or PostgreSQL.
    """

    def __init__(self, table: Table, dialect: Dialect) -> None:
        made = _INSERTS[dialect.name](table)
        others = {column.name: made.excluded[column.name] for column in table.c if not column.primary_key}
        self.put = Statement(made.on_conflict_do_update(index_elements=table.primary_key, set_=others), dialect)
        """Takes rows."""
        is_of_key = and_(*(column == bindparam(column.name) for column in table.primary_key))
        self.delete = Statement(delete(table).where(is_of_key), dialect)
        """Takes primary keys, by the names of their columns."""


class RowWriter:
    """A writer of a transaction's rows.

    Args:
        dialect: of the database.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._objects = RowsByKey(objects, dialect)
        self._changes = Statement(insert(changes), dialect)
        self._raise_began = Statement(_later_began(), dialect)
        self._add_began = Statement(_first_began(), dialect)
        forgotten = and_(changes.c.kind == bindparam("of_kind"), changes.c.revision <= bindparam("until"))
        self._forget = Statement(delete(changes).where(forgotten), dialect)
        self._syncs = RowsByKey(object_syncs, dialect)
        self._delete_syncs_of_node = Statement(delete(object_syncs).where(_IS_OF_NODE), dialect)
        self._node_states = RowsByKey(node_states, dialect)
        self._sessions = RowsByKey(sessions, dialect)
        self._signing_keys = RowsByKey(signing_keys, dialect)
        self._revision = Statement(update(state).values(revision=bindparam("newest")), dialect)
        self._epoch = Statement(_later_epoch(), dialect)

    def write(self, driver: Any, pending: PendingWrites, version: int, cloudcore: str) -> None:
        """Write the rows and the newest resourceVersion on a driver's connection; nodes are claimed for a cloudcore."""
        if pending.objects:
            self._objects.put.execute(driver, pending.objects.values())
        if pending.changes:
            self._changes.execute(driver, pending.changes)
        if pending.history:
            self._forget.execute(driver, [{"of_kind": kind, "until": until} for kind, until in pending.history.items()])
        if pending.history or pending.gaps:
            began = [{"of_kind": kind, "until": until} for kind, until in (pending.history | pending.gaps).items()]
            self._raise_began.execute(driver, began)
            self._add_began.execute(driver, began)
        if pending.has_nodes:
            self._write_nodes(driver, pending, cloudcore)
        if pending.epoch is not None:
            self._put_epoch(driver, pending.epoch)
        if pending.signing_keys:
            self._write_signing_keys(driver, pending)
        self._revision.execute(driver, [{"newest": version}])

    def _write_nodes(self, driver: Any, pending: PendingWrites, cloudcore: str) -> None:
        """Write the versions that nodes have acknowledged, their states and their claims; deletions go first."""
        if pending.forgotten:
            forgotten = [{"node": node} for node in sorted(pending.forgotten)]
            self._delete_syncs_of_node.execute(driver, forgotten)
            self._node_states.delete.execute(driver, forgotten)
        if pending.released:
            self._sessions.delete.execute(driver, [{"node": node} for node in sorted(pending.released)])
        deleted, synced = list[dict[str, Any]](), list[dict[str, Any]]()
        for node, syncs in pending.object_syncs.items():
            for uid, sync in syncs.items():
                if sync is None:
                    deleted.append({"node": node, "uid": uid})
                else:
                    kind, namespace, name = sync.key
                    synced.append({"node": node, "uid": uid, "kind": kind, "namespace": namespace, "name": name,
                                   "version": sync.number})  # fmt: skip
        if deleted:
            self._syncs.delete.execute(driver, deleted)
        if synced:
            self._syncs.put.execute(driver, synced)
        if pending.node_states:
            states = [{"node": node, "node_uid": each.uid, "epoch": each.epoch}
                      for node, each in pending.node_states.items()]  # fmt: skip
            self._node_states.put.execute(driver, states)
        if pending.sessions:
            claims = [{"node": node, "cloudcore": cloudcore, "revision": revision, "connected_at": int(connected_at),
                       "connected_at_ms": milliseconds(connected_at)}
                      for node, (revision, connected_at) in pending.sessions.items()]  # fmt: skip
            self._sessions.put.execute(driver, claims)

    def _write_signing_keys(self, driver: Any, pending: PendingWrites) -> None:
        keys = [msgspec.structs.asdict(key) for key in pending.signing_keys.values() if key is not None]
        deleted = [{"key_id": key_id} for key_id, key in pending.signing_keys.items() if key is None]
        if deleted:
            self._signing_keys.delete.execute(driver, deleted)
        if keys:
            self._signing_keys.put.execute(driver, keys)

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

"""The change journal in the database: a row for each write of an object, and for each access that was given, taken or
used.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Float,
    Index,
    Integer,
    RowMapping,
    String,
    Table,
    and_,
    bindparam,
    delete,
    func,
    insert,
    inspect,
    or_,
    select,
)

from beehive.printable import printable
from modules.cloud.journal.database import JournalDatabase, tables
from modules.cloud.object_writes import CLOUDCORE, KnownWrite, ObjectWrite, WriteList, WriteQuery, node_user
from modules.cloud.storage.database.queries import Query
from modules.cloud.storage.database.rows import RowsByKey
from modules.cloud.storage.database.tables import dialect_of, object_syncs

DAYS: Final = 7
"""Days that a write is kept."""
MOST_ROWS: Final = 50_000
"""Writes of people, and other clients, that are kept."""
MOST_OWN_ROWS: Final = 20_000
"""Writes of cloudcore itself and of nodes: a rollout displaces no write of a person."""
MOST_ACCESSES: Final = 10_000
MOST_OF_OBJECT: Final = 200
"""Writes of one object."""
MOST_BYTES: Final = 32 * 1024 * 1024
"""Characters of all writes. Beyond each bound, the user who has most of it loses the oldest."""
MOST_ANSWERED: Final = 500
"""Writes of one answer."""
_MOST_WORDS: Final = 8
_MOST_BEHIND: Final = 10
_PART: Final = 1000
"""Rows that are deleted together."""
_LONGEST_FIELDS: Final = 1100
_SEPARATOR: Final = "\n"


def _columns() -> list[Column[Any]]:
    """Return the columns that both tables have."""
    return [
        Column("at", Float(53), nullable=False),
        Column("is_own", Integer, nullable=False),
        Column("user", String(253), nullable=False),
        Column("manager", String(128), nullable=False),
        Column("verb", String(16), nullable=False),
        Column("kind", String(253), nullable=False),
        Column("namespace", String(253), nullable=False),
        Column("name", String(253), nullable=False),
        Column("uid", String(253), nullable=False),
        Column("node", String(253), nullable=False),
        Column("fields", String(_LONGEST_FIELDS), nullable=False),
        Column("more", Integer, nullable=False),
        Column("size", Integer, nullable=False),
    ]


writes: Final = Table(
    "cluster_writes",
    tables,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    *_columns(),
    Index("cluster_writes_of_object", "kind", "namespace", "name", "version"),
)
accesses: Final = Table(
    "cluster_accesses",
    tables,
    Column("id", String(64), primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("part", BigInteger, nullable=False),
    *_columns(),
    Index("cluster_accesses_by_place", "version", "part", unique=True),
)
_TEXTS: Final = ("user", "manager", "kind", "namespace", "name", "uid", "node")
_LENGTHS: Final = {name: 128 if name == "manager" else 253 for name in _TEXTS}
_SEARCHED: Final = ("kind", "namespace", "name", "user", "manager", "verb", "fields")


class WriteStore:
    """A reader and writer of the change journal. For one thread.

    Args:
        database: has the tables.
    """

    def __init__(self, database: JournalDatabase) -> None:
        self._database = database

    def write(self, found: Sequence[ObjectWrite]) -> None:
        """Store writes, in one transaction. To store one again is no error: the answer to a commit may have been
        lost.

        Raises:
            DatabaseError: nothing was stored.
        """
        self._database.run("write the change journal", lambda connection: _write(connection, found))

    def write_accesses(self, found: Sequence[ObjectWrite]) -> None:
        """Store accesses, after the writes that are stored, in one transaction. To store one again is no error.

        Raises:
            DatabaseError: nothing was stored.
        """
        self._database.run("write the change journal", lambda connection: _write_accesses(connection, found))

    def forget(self, now: float) -> None:
        """Delete old writes, and the oldest beyond the bounds. Raises DatabaseError."""
        self._database.run("write the change journal", lambda connection: _forget(connection, now))

    def read(self, query: WriteQuery) -> WriteList:
        """Return the newest writes that a query selects, and which nodes have their objects.

        Raises:
            DatabaseError: they cannot be read.
        """
        return self._database.run("read the change journal", lambda connection: _read(connection, query))


@cache
def _rendered(driver: str) -> tuple[RowsByKey, Query]:
    """Return the rows of writes, and the query for their number of one object, for a driver's databases."""
    dialect, columns = dialect_of(driver), writes.c
    of_object = and_(*(columns[name] == bindparam(name) for name in ("kind", "namespace", "name")))
    return RowsByKey(writes, dialect), Query(select(func.count()).where(of_object), dialect)


def _write(connection: Connection, found: Sequence[ObjectWrite]) -> None:
    """Store writes, and delete others of objects that have too many."""
    rows, number = _rendered(connection.engine.url.drivername)
    rows.put.execute(connection.connection.driver_connection, map(_row, found))
    columns = writes.c
    for kind, namespace, name in sorted({(each.kind, each.namespace, each.name) for each in found}):
        ((count,),) = number.rows(connection, kind=kind, namespace=namespace, name=name)
        if count > MOST_OF_OBJECT:
            place = and_(columns.kind == kind, columns.namespace == namespace, columns.name == name)
            _bound(connection, writes, place, func.count(), MOST_OF_OBJECT)


def _write_accesses(connection: Connection, found: Sequence[ObjectWrite]) -> None:
    columns = accesses.c
    connection.execute(delete(accesses).where(columns.id == bindparam("of")), [{"of": each.id} for each in found])
    newest = [connection.execute(select(func.max(table.c.version))).scalar() or 0 for table in (writes, accesses)]
    version = max(newest)
    last = connection.execute(select(func.max(columns.part)).where(columns.version == version)).scalar() or 0
    rows = [
        {**_row(each), "version": version, "part": part, "id": each.id, "is_own": 0}
        for part, each in enumerate(found, last + 1)
    ]
    connection.execute(insert(accesses), rows)


def _forget(connection: Connection, now: float) -> None:
    columns = writes.c
    for table in (writes, accesses):
        connection.execute(delete(table).where(table.c.at < now - DAYS * 86_400.0))
    for is_own, most in ((0, MOST_ROWS), (1, MOST_OWN_ROWS)):
        _bound(connection, writes, columns.is_own == is_own, func.count(), most)
    _bound(connection, writes, columns.version > 0, func.sum(columns.size), MOST_BYTES)
    _bound(connection, accesses, accesses.c.part > 0, func.count(), MOST_ACCESSES)


def _bound(
    connection: Connection, table: Table, chosen: ColumnElement[bool], measure: ColumnElement[int], most: int
) -> None:
    """Delete chosen rows until they are few enough: the oldest of the user with the most of them."""
    columns, (key,) = table.c, table.primary_key.columns
    while (excess := int(connection.execute(select(measure).where(chosen)).scalar() or 0) - most) > 0:
        largest = select(columns.user).where(chosen).group_by(columns.user).order_by(measure.desc()).limit(1)
        of_user = select(key).where(chosen, columns.user == largest.scalar_subquery())
        oldest = of_user.order_by(*_place(table)).limit(min(excess, _PART))
        connection.execute(delete(table).where(key.in_(oldest.scalar_subquery())))


def _read(connection: Connection, query: WriteQuery) -> WriteList:
    limit = max(1, min(query.limit, MOST_ANSWERED))
    knows_holders = inspect(connection).has_table(object_syncs.name)
    found, selected = list[ObjectWrite](), dict[Table, ColumnElement[bool]]()
    for table in (writes, accesses):
        selected[table] = and_(*_before(table, query), *_conditions(table, query, knows_holders=knows_holders))
        newest = (each.desc() for each in _place(table))
        page = select(table).where(selected[table]).order_by(*newest).limit(limit)
        found += [_write_of(row) for row in connection.execute(page).mappings().all()]
    found = sorted(found, key=lambda each: each.order, reverse=True)[:limit]
    more = 0
    if len(found) == limit:
        totals = (select(func.count()).select_from(table).where(chosen) for table, chosen in selected.items())
        more = sum(int(connection.execute(total).scalar_one()) for total in totals) - limit
    return WriteList(_known(connection, found, knows_holders=knows_holders), max(0, more))


def _place(table: Table) -> list[Column[int]]:
    """Return the columns by which entries are in order."""
    return [table.c[name] for name in ("version", "part") if name in table.c]


def _before(table: Table, query: WriteQuery) -> list[ColumnElement[bool]]:
    """Return the conditions that an entry is on the page; there is always one."""
    version, before, part = table.c.version, query.before, query.before_part
    if not before and not part:
        return [version >= 0]
    if table is accesses:
        return [or_(version < before, and_(version == before, table.c.part < part))]
    return [version < before + (1 if part else 0)]


def _conditions(table: Table, query: WriteQuery, *, knows_holders: bool) -> list[ColumnElement[bool]]:
    columns, found = table.c, list[ColumnElement[bool]]()
    if query.kind:
        kind, lower = query.kind.lower(), func.lower(columns.kind)
        found.append(or_(lower == kind, lower.startswith(f"{kind}.", autoescape=True)))
    for name in ("namespace", "name"):
        if value := getattr(query, name):
            found.append(columns[name] == value)
    if query.node:
        of_node = [columns.node == query.node, columns.user == node_user(query.node)]
        if knows_holders:
            held = select(object_syncs.c.uid).where(object_syncs.c.node == query.node)
            of_node.append(columns.uid.in_(held))
        found.append(or_(*of_node))
    for word in query.words[:_MOST_WORDS]:
        found.append(or_(*(func.lower(columns[name]).contains(word.lower(), autoescape=True) for name in _SEARCHED)))
    if query.since:
        found.append(columns.at >= query.since)
    if query.people_only:
        found.append(columns.is_own == 0)
    return found


def _known(connection: Connection, found: Sequence[ObjectWrite], *, knows_holders: bool) -> list[KnownWrite]:
    """Return writes with the nodes that have their objects, by the versions that these have acknowledged."""
    if not knows_holders:
        return [KnownWrite(each, -1) for each in found]
    columns = object_syncs.c
    wanted = select(columns.uid, columns.node, columns.version).where(columns.uid.in_({each.uid for each in found}))
    holders: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for uid, node, version in connection.execute(wanted.order_by(columns.node)).all() if found else ():
        holders[uid].append((node, version))
    known = []
    for each in found:
        behind = [node for node, version in holders[each.uid] if version < each.version]
        number = len(holders[each.uid])
        known.append(KnownWrite(each, number, number - len(behind), tuple(behind[:_MOST_BEHIND])))
    return known


def _row(write: ObjectWrite) -> dict[str, object]:
    texts = {name: printable(getattr(write, name))[: _LENGTHS[name]] for name in _TEXTS}
    fields = _SEPARATOR.join(map(printable, write.fields))[:_LONGEST_FIELDS]
    return {
        **texts, "version": write.version, "at": write.at, "verb": write.verb, "fields": fields, "more": write.more,
        "is_own": int(write.user == CLOUDCORE or write.user.startswith(node_user(""))),
        "size": len(fields) + sum(map(len, texts.values())),
    }  # fmt: skip


def _write_of(row: RowMapping) -> ObjectWrite:
    fields = tuple(each for each in row["fields"].split(_SEPARATOR) if each)
    known = {name: row[name] for name in (*_TEXTS, "version", "at", "verb", "more", "part", "id") if name in row}
    return ObjectWrite(**known, fields=fields)

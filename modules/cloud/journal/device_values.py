"""The device history in the database: the values that the properties of devices had."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    String,
    Table,
    and_,
    bindparam,
    delete,
    func,
    insert,
    select,
    tuple_,
    update,
)

from beehive.printable import printable
from modules.cloud.device_values import LONGEST_VALUE, DeviceValue, HistoryValue, ValueList, ValueQuery
from modules.cloud.journal.database import JournalDatabase, tables

DAYS: Final = 7
"""Days that a value is kept."""
MOST_OF_PROPERTY: Final = 2000
"""Values of a property, unless cloudcore is started with another number; older ones are deleted."""
MOST_BYTES_OF_PROPERTY: Final = 128 * 1024
MOST_BYTES: Final = 64 * 1024 * 1024
"""Of all values. At this size, the node whose devices have most of it loses the older half of each property."""
MOST_BYTES_IN_MEMORY: Final = 8 * 1024 * 1024
"""The same for a database in memory."""
_LONGEST_NAME: Final = 256
_ROW_BYTES: Final = 24
"""Bytes that a value takes beside its text."""
_PART: Final = 200
"""Properties in which values that are too old are looked for together: nobody else may use the database meanwhile."""
_AHEAD: Final = 60.0
"""Seconds that a value's time may be ahead."""
_DAY: Final = 86_400.0

properties: Final = Table(
    "cluster_device_properties",
    tables,
    Column("id", Integer, primary_key=True),
    Column("namespace", String(_LONGEST_NAME), nullable=False),
    Column("device", String(_LONGEST_NAME), nullable=False),
    Column("property", String(_LONGEST_NAME), nullable=False),
    Column("node", String(_LONGEST_NAME), nullable=False),
    Column("number", Integer, nullable=False),
    Column("size", Integer, nullable=False),
    Index("cluster_device_properties_by_name", "namespace", "device", "property", unique=True),
)
"""A row for each property, with the number and the bytes of its values."""
values: Final = Table(
    "cluster_device_values",
    tables,
    Column("property", Integer, primary_key=True, autoincrement=False),
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    Column("value", String(LONGEST_VALUE), nullable=False),
    sqlite_with_rowid=False,
)
"""A row for each value; times are milliseconds since 1970."""

_Key = tuple[str, str, str]


class ValueStore:
    """A reader and writer of the device history. For one thread.

    Args:
        database: has the tables.
        most: values of a property; 0 deletes them all, part by part.
    """

    def __init__(self, database: JournalDatabase, most: int = MOST_OF_PROPERTY) -> None:
        self._database = database
        self._most = most
        self._most_bytes = MOST_BYTES_IN_MEMORY if database.is_in_memory else MOST_BYTES

    def write(self, found: Sequence[DeviceValue], now: float) -> None:
        """Store values in one transaction. It is no error to store a value twice: the answer to a commit may have been
        lost.

        Raises:
            DatabaseError: nothing was stored.
        """
        self._database.run("write the device history", lambda connection: self._write(connection, found, now))

    def forget(self, now: float, after: int) -> int:
        """Delete the values that are too old in a part of the properties, and the oldest values beyond the whole limit.

        Args:
            now: seconds since 1970.
            after: where the part begins: 0, or what the call before has returned.

        Raises:
            DatabaseError: nothing was deleted.
        """
        return self._database.run("write the device history", lambda connection: self._forget(connection, now, after))

    def read(self, query: ValueQuery, now: float) -> ValueList:
        """Return the newest values that a query selects. Raises DatabaseError."""
        return self._database.run("read the device history", lambda connection: self._read(connection, query, now))

    def _write(self, connection: Connection, found: Sequence[DeviceValue], now: float) -> None:
        rows: dict[tuple[_Key, int], str] = {}
        nodes: dict[_Key, str] = {}
        free: dict[_Key, int] = {}
        for each in found:
            key = (_name(each.namespace), _name(each.name), _name(each.property))
            if now - DAYS * _DAY < each.at <= now + _AHEAD:
                at = round(each.at * 1000)
            else:  # values of one property follow each other, by a millisecond
                at = max(round(now * 1000), free.get(key, 0))
                free[key] = at + 1
            rows[key, at] = printable(each.value[:LONGEST_VALUE])[:LONGEST_VALUE]
            nodes[key] = _name(each.node)
        ids = _ids(connection, nodes)
        columns = values.c
        again = delete(values).where(columns.property == bindparam("of"), columns.at == bindparam("when"))
        connection.execute(again, [{"of": ids[key], "when": at} for key, at in rows])
        new = [{"property": ids[key], "at": at, "value": value} for (key, at), value in rows.items()]
        connection.execute(insert(values), new)
        added: defaultdict[_Key, list[int]] = defaultdict(list)
        for (key, _), value in rows.items():
            added[key].append(_ROW_BYTES + len(value))
        counted = update(properties).where(properties.c.id == bindparam("of")).values(
            number=properties.c.number + bindparam("more"), size=properties.c.size + bindparam("bytes"),
            node=bindparam("by"),
        )  # fmt: skip
        connection.execute(
            counted,
            [
                {"of": ids[key], "more": len(sizes), "bytes": sum(sizes), "by": nodes[key]}
                for key, sizes in added.items()
            ],
        )
        self._trim(connection, sorted(set(ids.values())))

    def _trim(self, connection: Connection, ids: Sequence[int]) -> None:
        """Delete the oldest values of properties that have too many: a tenth, so that it is not done each time."""
        columns = properties.c
        full = select(columns.id, columns.number, columns.size).where(
            columns.id.in_(ids), (columns.number > self._most) | (columns.size > MOST_BYTES_OF_PROPERTY)
        )
        for number, count, size in connection.execute(full).all():
            room = max(1, self._most * 9 // 10)
            _keep(connection, number, min(room, _half(count)) if size > MOST_BYTES_OF_PROPERTY else room)

    def _forget(self, connection: Connection, now: float, after: int) -> int:
        columns, oldest = properties.c, int((now - DAYS * _DAY if self._most else now + _DAY) * 1000)
        part = select(columns.id).where(columns.id > after).order_by(columns.id).limit(_PART)
        ids = list(connection.execute(part).scalars())
        is_old = and_(values.c.property.in_(ids), values.c.at < oldest)
        old = list(connection.execute(select(values.c.property).where(is_old).distinct()).scalars()) if ids else []
        if old:
            connection.execute(delete(values).where(is_old))
        for number in old:
            _count(connection, number)
        total = select(func.sum(columns.size))
        while int(connection.execute(total).scalar() or 0) > self._most_bytes:
            largest = select(columns.node).group_by(columns.node).order_by(func.sum(columns.size).desc()).limit(1)
            of_node = select(columns.id, columns.number).where(columns.node == largest.scalar_subquery())
            for number, count in connection.execute(of_node).all():
                _keep(connection, number, _half(count))
        return ids[-1] if len(ids) == _PART else 0

    def _read(self, connection: Connection, query: ValueQuery, now: float) -> ValueList:
        columns, oldest = properties.c, int((now - DAYS * _DAY) * 1000)
        wanted = (
            select(values.c.at, values.c.value, columns.property, columns.node)
            .join(properties, columns.id == values.c.property)
            .where(columns.namespace == _name(query.namespace), columns.device == _name(query.name))
            .where(values.c.at >= oldest)
        )
        if query.property:
            wanted = wanted.where(columns.property == _name(query.property))
        newest = wanted.order_by(values.c.at.desc()).limit(max(1, min(query.limit, MOST_OF_PROPERTY)))
        rows = connection.execute(newest).all()
        found = [
            HistoryValue(at / 1000, name, str(value)) for at, value, name, _ in reversed(rows) if isinstance(at, int)
        ]
        return ValueList(found, str(rows[0].node) if rows else "", self._most)


def _name(text: str) -> str:
    return printable(text)[:_LONGEST_NAME]


def _ids(connection: Connection, wanted: dict[_Key, str]) -> dict[_Key, int]:
    """Return the ids of properties, and make new ones."""
    columns = properties.c
    devices = sorted({(namespace, device) for namespace, device, _ in wanted})
    of_devices = select(columns.id, columns.namespace, columns.device, columns.property).where(
        tuple_(columns.namespace, columns.device).in_(devices)
    )
    known = {(row.namespace, row.device, row.property): row.id for row in connection.execute(of_devices)}
    new = [key for key in wanted if key not in known]
    if new:
        names = ("namespace", "device", "property")
        rows = [
            {**dict(zip(names, key, strict=True)), "node": "", "number": 0, "size": _ROW_BYTES + sum(map(len, key))}
            for key in new
        ]
        connection.execute(insert(properties), rows)
        known = {(row.namespace, row.device, row.property): row.id for row in connection.execute(of_devices)}
    return {key: known[key] for key in wanted}


def _half(count: object) -> int:
    """Return half of a number; 0 for anything else, as in a database that another program has changed."""
    return count // 2 if isinstance(count, int) else 0


def _keep(connection: Connection, number: int, count: int) -> None:
    """Keep the newest values of a property only."""
    of_property = values.c.property == number
    newest = select(values.c.at).where(of_property).order_by(values.c.at.desc())
    beyond = connection.execute(newest.offset(count).limit(1)).scalar()
    if beyond is not None:
        connection.execute(delete(values).where(of_property, values.c.at <= beyond))
    _count(connection, number)


def _count(connection: Connection, number: int) -> None:
    """Count the values of a property again; one without any goes."""
    of_values = select(func.count(), func.sum(func.length(values.c.value))).where(values.c.property == number)
    count, size = connection.execute(of_values).one()
    this = properties.c.id == number
    if not count:
        connection.execute(delete(properties).where(this))
        return
    names = func.length(properties.c.namespace) + func.length(properties.c.device) + func.length(properties.c.property)
    total = names + (_ROW_BYTES * (count + 1) + int(size))
    connection.execute(update(properties).where(this).values(number=count, size=total))

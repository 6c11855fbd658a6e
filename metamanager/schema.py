"""The tables and statements of the database in SQLAlchemy Core, the one source of the SQL.

For SQLite, the database of an edge node, `python -m metamanager.generate` prints the statements into
`metamanager._sqlite_sql`, and a test holds the two equal. At run time SQLAlchemy would cost an edgecore 13 MB of
resident memory and 0.13 s of every start, only to print these texts again. Other databases load it
(`metamanager.core_store`).
"""

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql.expression import ClauseElement

METADATA = sa.MetaData()

META = sa.Table(
    "meta",
    METADATA,
    sa.Column("key", sa.String(512), primary_key=True),
    sa.Column("type", sa.String(32)),
    sa.Column("value", sa.Text),
    sa.Column("uid", sa.String(64)),
    sa.Column("resource_version", sa.BigInteger),
    sa.Column("namespace", sa.String(256)),
    sa.Column("name", sa.String(256)),
    sa.Column("updated", sa.BigInteger),
    sa.Index("edgecore_meta_type", "type"),
)
"""KubeEdge's table with additional columns. KubeEdge's tools name their columns, and leave the additional ones NULL."""

SQLITE_METADATA = sa.MetaData()

HISTORY = sa.Table(
    "edgecore_history",
    SQLITE_METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("key", sa.String(512), nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("cause", sa.String(64), nullable=False),
    sa.Column("message", sa.String(64), nullable=False),
    sa.Column("uid", sa.String(64)),
    sa.Column("resource_version", sa.BigInteger),
    sa.Column("size", sa.BigInteger),
    sa.Column("value", sa.Text),
    sa.Index("edgecore_history_key", "key"),
)
"""The last changes of each object (`metamanager.history`), on SQLite only: a database server has its own means. `size`
is NULL for a deletion, `value` for a state that is not kept."""

VERSION = sa.Table("edgecore_schema", METADATA, sa.Column("version", sa.Integer, nullable=False))
"""The schema's version, for databases without `PRAGMA user_version`."""

_KEY = sa.bindparam("key", type_=sa.String)
_TYPE = sa.bindparam("type", type_=sa.String)
_UID = sa.bindparam("uid", type_=sa.String)

GET = sa.select(META.c.value).where(META.c.key == _KEY)
LIST = sa.select(META.c.value).where(META.c.type == _TYPE).order_by(META.c.key)
LIST_IN = (
    sa.select(META.c.value)
    .where(META.c.type == _TYPE, META.c.namespace == sa.bindparam("namespace", type_=sa.String))
    .order_by(META.c.key)
)
ROWS = sa.select(META).order_by(META.c.key)
STATE = sa.select(META.c.uid, META.c.resource_version).where(META.c.key == _KEY)
INSERT = sa.insert(META).values({column.name: sa.bindparam(column.name) for column in META.c})
UPDATE = sa.update(META).where(META.c.key == sa.bindparam("row_key"))
DELETE = sa.delete(META).where(META.c.key == _KEY)
DELETE_OF_UID = sa.delete(META).where(
    META.c.key == _KEY, sa.or_(META.c.uid == _UID, sa.and_(META.c.uid.is_(None), META.c.value.contains(_UID)))
)
"""A row written by KubeEdge has its uid only in the value, where KubeEdge searches for it too."""
DELETE_OWNED = sa.delete(META).where(META.c.type == _TYPE, META.c.uid == _UID)

_ZERO: sa.ColumnClause[int] = sa.literal_column("0", sa.Integer)
_ONE: sa.ColumnClause[int] = sa.literal_column("1", sa.Integer)
_NO_UID: sa.ColumnClause[str] = sa.literal_column("''", sa.String)
_ID = sa.bindparam("id", type_=sa.Integer)
NOTE = sa.insert(HISTORY).values(
    {column.name: sa.bindparam(column.name) for column in HISTORY.c if column.name != "id"}
)
TRIM = sa.delete(HISTORY).where(
    HISTORY.c.key == _KEY,
    HISTORY.c.id
    <= sa.select(HISTORY.c.id)
    .where(HISTORY.c.key == _KEY)
    .order_by(HISTORY.c.id.desc())
    .limit(_ONE)
    .offset(sa.bindparam("kept", type_=sa.Integer))
    .scalar_subquery(),
)
"""Deletes all but the newest `kept` changes of an object."""
_KEPT_SIZE = sa.case((HISTORY.c.value.is_not(None), HISTORY.c.size), else_=_ZERO)
"""Not the text's length: SQLite would read the whole text for it."""
WEIGHTS = (
    sa.select(HISTORY.c.id, _KEPT_SIZE)
    .order_by(HISTORY.c.id)
    .limit(sa.bindparam("number", type_=sa.Integer))
    .offset(_ZERO)
)
DROP = sa.delete(HISTORY).where(HISTORY.c.id <= _ID)
WEIGHT = sa.select(sa.func.count(), sa.func.sum(_KEPT_SIZE)).select_from(HISTORY)


def sqlite_put() -> ClauseElement:
    """Return the statement that inserts or replaces a row, unless the stored one has a newer or the same state
    (`Row.supersedes`).
    """
    insert = sqlite.insert(META).values({column.name: sa.bindparam(column.name) for column in META.c})
    new = insert.excluded
    stored_version = sa.func.coalesce(META.c.resource_version, _ZERO)
    return insert.on_conflict_do_update(
        index_elements=[META.c.key],
        set_={column.name: new[column.name] for column in META.c if not column.primary_key},
        where=sa.or_(
            META.c.uid.is_distinct_from(new.uid),
            stored_version < new.resource_version,
            sa.and_(stored_version == new.resource_version, sa.or_(new.resource_version == _ZERO, new.uid == _NO_UID)),
        ),
    )

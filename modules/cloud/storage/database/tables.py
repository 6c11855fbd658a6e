"""The tables of the cluster's database, for any SQL database.

An object is one row with its JSON; only its key and its revision are queried. The row of a deleted object stays for a
while without the JSON, so that other cloudcores read the deletion like any change: as a row with a higher revision than
the last that they read.
"""

import functools
from typing import Final

from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    Connection,
    Dialect,
    Insert,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    create_engine,
    inspect,
    select,
)
from sqlalchemy.schema import CreateIndex, CreateTable

from modules.cloud.storage.database.errors import DatabaseError
from modules.cloud.storage.database.kept_copy import keep_copy

SCHEMA_VERSION: Final = 2
_WITHOUT_NODE_STATES: Final = 1
"""The version before `node_states` and `epochs`."""

_NAME = String(253)
"""The longest name in Kubernetes."""
_KIND = String(63 + 1 + 253)
"""The longest kind: a custom one's, a dot, and the group of its CustomResourceDefinition."""

tables = MetaData()

state = Table(
    "cluster_state",
    tables,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("schema_version", Integer, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("compacted", BigInteger, nullable=False),
)
"""One row, also used as the lock: the newest resourceVersion, and the version of the last compacted deletion."""

objects = Table(
    "cluster_objects",
    tables,
    Column("kind", _KIND, primary_key=True),
    Column("namespace", _NAME, primary_key=True),
    Column("name", _NAME, primary_key=True),
    Column("revision", BigInteger, nullable=False, index=True),
    Column("body", LargeBinary, nullable=True),
)

changes = Table(
    "cluster_changes",
    tables,
    Column("revision", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True, autoincrement=False),
    Column("kind", _KIND, nullable=False, index=True),
    Column("namespace", _NAME, nullable=False),
    Column("name", _NAME, nullable=False),
    Column("type", String(8), nullable=False),
    Column("body", LargeBinary, nullable=True),
    Column("old", LargeBinary, nullable=True),
)
"""The latest changes of each kind, see `StoredChange`: watches go on from them after a restart, and other cloudcores
send them to theirs. SQLite's own `INTEGER` has 64 bits, and as a primary key no index beside the table."""

history = Table(
    "cluster_history",
    tables,
    Column("kind", _KIND, primary_key=True),
    Column("began", BigInteger, nullable=False),
)
"""The version after which all changes of a kind are kept; "" for the kinds without a row."""

object_syncs = Table(
    "cluster_syncs",
    tables,
    Column("node", _NAME, primary_key=True),
    Column("uid", _NAME, primary_key=True),
    Column("kind", _KIND, nullable=False),
    Column("namespace", _NAME, nullable=False),
    Column("name", _NAME, nullable=False),
    Column("version", BigInteger, nullable=False),
)
"""KubeEdge's ObjectSync: an object that a node may have, and `ObjectSync.number`."""

node_states = Table(
    "cluster_node_states",
    tables,
    Column("node", _NAME, primary_key=True),
    Column("node_uid", _NAME, nullable=False),
    Column("epoch", BigInteger, nullable=False),
)
"""The Node object that owns the ObjectSyncs of each node, and the epoch of their versions."""

epochs = Table(
    "cluster_epochs",
    tables,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    Column("newest", BigInteger, nullable=False),
)
"""One row: the present epoch of the cluster's versions, and the newest version that was seen in it."""

sessions = Table(
    "cluster_sessions",
    tables,
    Column("node", _NAME, primary_key=True),
    Column("cloudcore", String(64), nullable=False),
    Column("revision", BigInteger, nullable=False, index=True),
    Column("connected_at", BigInteger, nullable=False, server_default="0"),
    Column("connected_at_ms", BigInteger, nullable=False, server_default="0"),
)
"""The cloudcore of each node's last connection, and when, in seconds and in milliseconds since 1970; 0 from a cloudcore
of a version that does not know the time. One that does not know the milliseconds leaves those of an earlier claim."""

signing_keys = Table(
    "cluster_signing_keys",
    tables,
    Column("key_id", String(64), primary_key=True),
    Column("made", BigInteger, nullable=False),
    Column("retired", BigInteger, nullable=False),
    Column("pem", LargeBinary, nullable=False),
)
"""The keys that sign the tokens of service accounts, see `StoredSigningKey`."""


def dialect_of(driver: str) -> Dialect:
    """Return the dialect of all databases with a driver, as `sqlite`: nothing is opened."""
    return create_engine(URL.create(driver)).dialect


def prepare(connection: Connection, where: str) -> bool:
    """Create missing tables, and return whether nothing was ever stored in them.

    Raises:
        DatabaseError: a newer version of cloudcore has made the tables, names do not fit into the database, or a table
            is another user's.
    """
    _check_encoding(connection, where)
    _check_owners(connection, where)
    if not inspect(connection).has_table(state.name):
        for statement in _creation(connection.engine.url.drivername):
            connection.exec_driver_sql(statement)
        return True
    found = connection.execute(select(state.c.schema_version).with_for_update()).scalar_one()
    if found == _WITHOUT_NODE_STATES:
        keep_copy(connection, _WITHOUT_NODE_STATES, where)
        _add_node_states(connection)
        found = SCHEMA_VERSION
    if found != SCHEMA_VERSION:
        raise DatabaseError("open the database", where, other_schema(found))
    _add_connected_at(connection)
    _add_history(connection)
    tables.create_all(connection, tables=[signing_keys])
    _widen_kinds(connection)
    return bool(connection.execute(select(state.c.revision)).scalar_one() == 0)


def other_schema(found: int) -> str:
    """Return why a database whose tables have another version than this cloudcore's is not used."""
    return f"its tables have version {found}, this cloudcore knows {SCHEMA_VERSION}; use the other cloudcore again"


def _check_encoding(connection: Connection, where: str) -> None:
    """Refuse a database that cannot keep each name: with the first other one, no transaction would end."""
    if connection.dialect.name == "postgresql":
        encoding = str(connection.exec_driver_sql("SHOW server_encoding").scalar_one())
        if encoding != "UTF8":
            why = f"its encoding is {encoding}: CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8', and load a dump"
            raise DatabaseError("open the database", where, why)


_FOREIGN: Final = """
SELECT relname || ' belongs to ' || pg_catalog.pg_get_userbyid(relowner) FROM pg_catalog.pg_class
WHERE relname = ANY (%(names)s) AND pg_catalog.pg_table_is_visible(oid)
AND NOT pg_catalog.pg_has_role(relowner, 'USAGE') ORDER BY relname LIMIT 1
"""


def _check_owners(connection: Connection, where: str) -> None:
    """Refuse tables of another user of PostgreSQL: their triggers would run with cloudcore's rights, and their owner
    could write any object. Whoever may create tables in a schema of the `search_path` can put them there before
    cloudcore does, or in front of its own.
    """
    if connection.dialect.name == "postgresql":
        found = connection.exec_driver_sql(_FOREIGN, {"names": list(tables.tables)}).scalar()
        if found is not None:
            hint = "make its tables cloudcore's (ALTER TABLE … OWNER TO), or let nobody else CREATE in the search_path"
            raise DatabaseError("open the database", where, f"table {found}: {hint}")


@functools.cache
def _creation(driver: str) -> list[str]:
    """Return the statements that create missing tables and the first rows, for all databases of a driver.

    `create_all` renders its statements again for each database, and asks for each table whether it is there.
    """
    dialect = dialect_of(driver)
    statements: list[CreateTable | CreateIndex | Insert] = []
    for table in tables.sorted_tables:
        statements.append(CreateTable(table, if_not_exists=True))
        statements += [CreateIndex(index, if_not_exists=True) for index in table.indexes]
    statements.append(state.insert().values(id=1, schema_version=SCHEMA_VERSION, revision=0, compacted=0))
    statements.append(epochs.insert().values(id=1, epoch=0, newest=0))
    statements.append(history.insert().values(kind="", began=0))
    return [str(each.compile(dialect=dialect, compile_kwargs={"literal_binds": True})) for each in statements]


def _add_connected_at(connection: Connection) -> None:
    """Add the columns of `sessions` that earlier cloudcores do not know, and do not mind."""
    known = {column["name"] for column in inspect(connection).get_columns(sessions.name)}
    for name in {"connected_at", "connected_at_ms"} - known:
        connection.exec_driver_sql(f"ALTER TABLE {sessions.name} ADD COLUMN {name} BIGINT NOT NULL DEFAULT 0")


def _add_history(connection: Connection) -> None:
    """Add the tables of changes, which earlier cloudcores do not know, and do not mind."""
    if not inspect(connection).has_table(history.name):
        tables.create_all(connection, tables=[changes, history])
        revision = connection.execute(select(state.c.revision)).scalar_one()
        connection.execute(history.insert().values(kind="", began=revision))


def _widen_kinds(connection: Connection) -> None:
    """Make room for the longest kind in tables of earlier cloudcores. SQLite keeps to no width."""
    if connection.dialect.name == "postgresql":
        for table in (objects, changes, history, object_syncs):
            found = next(column for column in inspect(connection).get_columns(table.name) if column["name"] == "kind")
            if found["type"].compile(connection.dialect) != _KIND.compile(connection.dialect):
                connection.exec_driver_sql(
                    f"ALTER TABLE {table.name} ALTER COLUMN kind TYPE {_KIND.compile(connection.dialect)}"
                )


def _add_node_states(connection: Connection) -> None:
    """Add the tables of version 2. The present ObjectSyncs belong to the present Nodes: nodes that connect, and the
    collection of old state, note the uids.
    """
    tables.create_all(connection, tables=[node_states, epochs])
    connection.execute(epochs.insert().values(id=1, epoch=0, newest=0))
    connection.execute(state.update().values(schema_version=SCHEMA_VERSION))

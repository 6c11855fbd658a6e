"""The tables of the cluster's database, for any SQL database.

An object is one row with its JSON; only its key and its revision are queried. The row of a deleted object stays for a
while without the JSON, so that other cloudcores read the deletion like any change: as a row with a higher revision than
the last one that they read.
"""

from typing import Final

from sqlalchemy import BigInteger, Column, Connection, Integer, LargeBinary, MetaData, String, Table, inspect, select

from modules.cloud.apiserver.database.errors import DatabaseError

SCHEMA_VERSION: Final = 1

_NAME = String(253)
"""The longest name in Kubernetes."""

tables = MetaData()

state = Table(
    "cluster_state",
    tables,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("schema_version", Integer, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("compacted", BigInteger, nullable=False),
)
"""One row, also used as the lock: the newest resourceVersion, and the one up to which deletions were compacted."""

objects = Table(
    "cluster_objects",
    tables,
    Column("kind", String(64), primary_key=True),
    Column("namespace", _NAME, primary_key=True),
    Column("name", _NAME, primary_key=True),
    Column("revision", BigInteger, nullable=False, index=True),
    Column("body", LargeBinary, nullable=True),
)

object_syncs = Table(
    "cluster_syncs",
    tables,
    Column("node", _NAME, primary_key=True),
    Column("uid", _NAME, primary_key=True),
    Column("kind", String(64), nullable=False),
    Column("namespace", _NAME, nullable=False),
    Column("name", _NAME, nullable=False),
    Column("version", BigInteger, nullable=False),
)
"""KubeEdge's ObjectSync: an object that a node may have, and the version that it has acknowledged, 0 for none."""

sessions = Table(
    "cluster_sessions",
    tables,
    Column("node", _NAME, primary_key=True),
    Column("cloudcore", String(64), nullable=False),
    Column("revision", BigInteger, nullable=False, index=True),
)
"""The cloudcore to which each node has connected last."""


def prepare(connection: Connection, where: str) -> bool:
    """Create missing tables, and return whether nothing was ever stored in them.

    Raises:
        DatabaseError: another version of cloudcore has made the tables.
    """
    if not inspect(connection).has_table(state.name):
        tables.create_all(connection)
        connection.execute(state.insert().values(id=1, schema_version=SCHEMA_VERSION, revision=0, compacted=0))
        return True
    found, revision = connection.execute(select(state.c.schema_version, state.c.revision)).one()
    if found != SCHEMA_VERSION:
        why = f"its tables have version {found}, this cloudcore knows {SCHEMA_VERSION}; use the other cloudcore again"
        raise DatabaseError("open the database", where, why)
    return bool(revision == 0)

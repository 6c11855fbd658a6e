"""The tables of the cluster's database, as few as will do on any SQL database.

An object is one row with its JSON, for nothing but its key, its uid and its revision is ever asked of it here. A
deleted object's row stays for a while without the JSON, so that the other cloudcores that share the database learn of
the deletion as they learn of everything: by asking what has a higher revision than the last that they saw.
"""

from typing import Final

from sqlalchemy import BigInteger, Column, Connection, Integer, LargeBinary, MetaData, String, Table, inspect, select

from modules.edgecontroller.database.errors import DatabaseError

SCHEMA_VERSION: Final = 1

_NAME = String(253)
"""The longest name that Kubernetes has."""

tables = MetaData()

state = Table(
    "cluster_state",
    tables,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("schema_version", Integer, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("compacted", BigInteger, nullable=False),
)
"""One row, which is also the lock: the newest resourceVersion, and that up to which deletions are forgotten."""

objects = Table(
    "cluster_objects",
    tables,
    Column("kind", String(64), primary_key=True),
    Column("namespace", _NAME, primary_key=True),
    Column("name", _NAME, primary_key=True),
    Column("revision", BigInteger, nullable=False, index=True),
    Column("body", LargeBinary, nullable=True),
)

syncs = Table(
    "cluster_syncs",
    tables,
    Column("node", _NAME, primary_key=True),
    Column("uid", _NAME, primary_key=True),
    Column("kind", String(64), nullable=False),
    Column("namespace", _NAME, nullable=False),
    Column("name", _NAME, nullable=False),
    Column("version", BigInteger, nullable=False),
)
"""KubeEdge's ObjectSync: what a node may have, and the version that it has acknowledged, 0 for none."""

sessions = Table(
    "cluster_sessions",
    tables,
    Column("node", _NAME, primary_key=True),
    Column("cloudcore", String(64), nullable=False),
    Column("revision", BigInteger, nullable=False, index=True),
)
"""Which cloudcore a node has connected to last."""


def prepare(connection: Connection, where: str) -> bool:
    """Makes the tables when there are none; whether nothing has ever been in them.

    Raises:
        DatabaseError: they were made by a newer version.
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

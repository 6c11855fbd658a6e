"""The store on a database of SQLAlchemy (`postgresql+psycopg://…`)."""

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from metamanager.errors import StoreError, StoreOpenError, StoreWriteError
from metamanager.rows import UNNOTED, Cause, Row, row_of_columns

SCHEMA_VERSION = 1

_METADATA = sa.MetaData()
_META = sa.Table(
    "meta",
    _METADATA,
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
_VERSION = sa.Table("edgecore_schema", _METADATA, sa.Column("version", sa.Integer, nullable=False))
"""The schema's version, which SQLite has as `PRAGMA user_version`."""

_KEY = sa.bindparam("key", type_=sa.String)
_TYPE = sa.bindparam("type", type_=sa.String)
_UID = sa.bindparam("uid", type_=sa.String)
_NAMESPACE = sa.bindparam("namespace", type_=sa.String)

_GET = sa.select(_META.c.value).where(_META.c.key == _KEY)
_LIST = sa.select(_META.c.value).where(_META.c.type == _TYPE).order_by(_META.c.key)
_LIST_IN = sa.select(_META.c.value).where(_META.c.type == _TYPE, _META.c.namespace == _NAMESPACE).order_by(_META.c.key)
_ROWS = sa.select(_META).order_by(_META.c.key)
_STATE = sa.select(_META.c.uid, _META.c.resource_version).where(_META.c.key == _KEY)
_INSERT = sa.insert(_META).values({column.name: sa.bindparam(column.name) for column in _META.c})
_UPDATE = sa.update(_META).where(_META.c.key == sa.bindparam("row_key"))
_DELETE = sa.delete(_META).where(_META.c.key == _KEY)
_DELETE_OF_UID = sa.delete(_META).where(
    _META.c.key == _KEY, sa.or_(_META.c.uid == _UID, sa.and_(_META.c.uid.is_(None), _META.c.value.contains(_UID)))
)
"""See `metamanager.statements`."""
_DELETE_OWNED = sa.delete(_META).where(_META.c.type == _TYPE, _META.c.uid == _UID)


class CoreStore:
    """A `Store` on any database with a dialect and a driver for SQLAlchemy, in portable Core statements.

    Nodes have SQLite (`metamanager.sqlite_store`); this serves sites that keep the state on a server.

    Raises:
        StoreOpenError: the URL is wrong, its driver is not installed, or the server cannot be reached.
    """

    def __init__(self, url: str) -> None:
        self.name = "the database of the configured URL"
        self._changed = False
        """Whether there are changes since the last commit."""
        self._lost: StoreWriteError | None = None
        """Why these changes are lost; every commit raises it until a rollback."""
        with ExitStack() as undo:
            try:
                engine = sa.create_engine(url, pool_size=1, max_overflow=0, hide_parameters=True)
                self.name = engine.url.set(query={}).render_as_string(hide_password=True)
                undo.callback(engine.dispose)
                self._engine = engine
                self._make_tables()
                self._connection = engine.connect()
            except (ArgumentError, NoSuchModuleError, ImportError, ValueError) as error:
                hint = "dataBase.dataSource is a path or a URL of SQLAlchemy whose driver is installed"
                raise StoreOpenError("open the database", self.name, f"{type(error).__name__}; {hint}") from error
            except SQLAlchemyError as error:
                raise StoreOpenError("open the database", self.name, _reason(error)) from error
            undo.pop_all()

    def get(self, key: str) -> str | None:
        return next(iter(self._read(_GET, {"key": key})), None)

    def get_all(self, kind: str, namespace: str | None = None) -> list[str]:
        if namespace is None:
            return self._read(_LIST, {"type": kind})
        return self._read(_LIST_IN, {"type": kind, "namespace": namespace})

    def rows(self) -> Iterator[Row]:
        try:
            yield from (row_of_columns(tuple(found)) for found in self._connection.execute(_ROWS))
        except SQLAlchemyError as error:
            raise self._unreadable(error) from error

    def put(self, row: Row) -> bool:
        values = {column.name: getattr(row, column.name) for column in _META.c}
        stored = self._state(row.key)
        if stored is None:
            self._write(_INSERT, values, "store an object", row.key)
        elif row.supersedes(*stored):
            del values["key"]
            statement = _UPDATE.values(values)
            self._write(statement, {"row_key": row.key}, "store an object", row.key)
        else:
            return row.equals(*stored)
        return True

    def delete(self, key: str, uid: str = "", cause: Cause = UNNOTED, now_ms: int = 0) -> bool:  # noqa: ARG002
        statement = _DELETE_OF_UID if uid else _DELETE
        return self._write(statement, {"key": key, "uid": uid} if uid else {"key": key}, "delete an object", key) > 0

    def delete_owned(self, kind: str, uid: str) -> int:
        return self._write(_DELETE_OWNED, {"type": kind, "uid": uid}, "delete the objects of an owner", uid)

    def commit(self) -> None:
        if self._lost is not None:
            raise self._lost.with_traceback(None)
        try:
            self._connection.commit()
        except SQLAlchemyError as error:
            raise self._failed("commit", self.name, error) from error
        self._changed = False

    def make_room(self) -> bool:
        return False

    def rollback(self) -> None:
        self._changed, self._lost = False, None
        with suppress(SQLAlchemyError):
            self._connection.rollback()

    def close(self) -> None:
        with suppress(SQLAlchemyError):
            self._connection.close()
        self._engine.dispose()

    def _make_tables(self) -> None:
        with self._engine.begin() as connection:
            _METADATA.create_all(connection)
            version = connection.execute(sa.select(_VERSION.c.version)).scalar()
            if version is None:
                connection.execute(sa.insert(_VERSION), {"version": SCHEMA_VERSION})
            elif version > SCHEMA_VERSION:
                hint = f"its schema has version {version}, this edgecore knows {SCHEMA_VERSION}; use the newer edgecore"
                raise StoreOpenError("open the database", self.name, hint)

    def _state(self, key: str) -> tuple[str | None, int | None] | None:
        try:
            row = self._connection.execute(_STATE, {"key": key}).one_or_none()
        except SQLAlchemyError as error:
            raise self._failed("read the database", key, error) from error
        return None if row is None else (row[0], row[1])

    def _read(self, statement: sa.Select[Any], parameters: dict[str, str]) -> list[str]:
        try:
            return list(self._connection.execute(statement, parameters).scalars())
        except SQLAlchemyError as error:
            raise self._unreadable(error) from error

    def _write(self, statement: sa.UpdateBase, parameters: dict[str, Any], attempt: str, on: str) -> int:
        try:
            self._changed = True
            return self._connection.execute(statement, parameters).rowcount
        except SQLAlchemyError as error:
            raise self._failed(attempt, on, error) from error

    def _failed(self, attempt: str, on: str, error: SQLAlchemyError) -> StoreWriteError:
        """Roll back and return the error: after a failed statement most servers refuse the rest of the transaction, and
        its commit does nothing without an error.
        """
        self.rollback()
        return StoreWriteError(attempt, on, _reason(error), batch_lost=True)

    def _unreadable(self, error: SQLAlchemyError) -> StoreError:
        """Return the error of a failed read, after which the changes since the last commit are lost, too."""
        changed, lost = self._changed, self._lost
        failed = self._failed("commit", self.name, error)
        self._lost = failed if changed else lost
        return StoreError("read the database", self.name, _reason(error), retryable=True)


def _reason(error: SQLAlchemyError) -> str:
    """Return the driver's text; SQLAlchemy's would quote the statement's parameters, which may be secrets."""
    return f"{type(error).__name__}: {error.orig}" if isinstance(error, sa.exc.DBAPIError) else type(error).__name__

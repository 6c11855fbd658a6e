"""Database engines, set up so that commits survive a loss of power and no lock is waited for without a timeout."""

import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import StaticPool

from beehive.files.advice import advice
from beehive.files.private import make_private
from modules.cloud.storage.database.errors import DatabaseError
from modules.cloud.storage.database.queries import BEGIN

_BUSY_SECONDS = 20
"""Timeout for the lock of another cloudcore; a transaction takes milliseconds."""

_BUSY_TIMEOUT = f"PRAGMA busy_timeout={_BUSY_SECONDS * 1000}"
_SQLITE_PRAGMAS = (
    _BUSY_TIMEOUT,
    "PRAGMA journal_mode=WAL",
    "PRAGMA trusted_schema=OFF",
    "PRAGMA secure_delete=ON",
    f"PRAGMA journal_size_limit={16 * 1024 * 1024}",
)
_POSTGRESQL_SETTINGS = (
    f"SET lock_timeout = '{_BUSY_SECONDS}s'",
    f"SET statement_timeout = '{3 * _BUSY_SECONDS}s'",
    f"SET idle_in_transaction_session_timeout = '{_BUSY_SECONDS}s'",
)
"""The last one ends the transaction of a halted cloudcore, which would halt all others."""

_PSYCOPG_ARGUMENTS = {
    "connect_timeout": 5,
    "tcp_user_timeout": 10_000,
    "application_name": "cloudcore",
    "client_encoding": "utf8",
}


def url_of(text: str) -> URL:
    """Return the database's URL.

    Args:
        text: a SQLAlchemy URL, or the path of an SQLite file.

    Raises:
        DatabaseError: the text is neither.
    """
    if "://" not in text:
        return URL.create("sqlite", database=str(Path(text).absolute()))
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:  # a port may be no number
        hint = "a path, or a URL as postgresql://USER:PASSWORD@HOST/NAME, is wanted"
        raise DatabaseError("open the database", "the URL given", hint) from error
    return url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url


def file_of(text: str) -> Path | None:
    """Return the path of an SQLite file; None for a database that is no file.

    Args:
        text: as for `url_of`.

    Raises:
        DatabaseError: it is neither a URL nor a path.
    """
    url = url_of(text)
    is_file = url.get_backend_name() == "sqlite" and url.database and url.database != ":memory:"
    return Path(str(url.database)) if is_file else None


def shown(url: URL) -> str:
    """Return the URL without its password, for logs; without parameters, which may be passwords, too."""
    return url.set(query={}).render_as_string(hide_password=True)


def is_local_or_verified(connection: Connection) -> bool:
    """Return whether a server is on this machine, or has proved its name: by default, psycopg takes any that answers,
    also without TLS. True for a driver that is not known.
    """
    if connection.dialect.driver != "psycopg":
        return True
    info: Any = connection.connection.driver_connection.info  # type: ignore[union-attr]
    return proves_name(info.host, info.get_parameters().get("sslmode", ""))


def proves_name(host: str, mode: str) -> bool:
    """Return whether nobody else can answer in a PostgreSQL's place.

    Args:
        host: its name or address, or the directory of its socket.
        mode: the connection's `sslmode`; "" for the default one.
    """
    return mode == "verify-full" or host.startswith(("/", "@")) or host in ("localhost", "127.0.0.1", "::1")


def make_engine(url: URL, *, durable: bool = True) -> Engine:
    """Make an engine; it opens no connection yet.

    Args:
        url: the database.
        durable: whether a commit waits for the disk; otherwise an SQLite file survives only the end of the process.

    Raises:
        DatabaseError: the driver is missing, or the file cannot be made.
    """
    options: dict[str, Any] = {"pool_size": 2, "max_overflow": 0, "hide_parameters": True}
    if url.get_backend_name() == "sqlite":
        options = {"connect_args": {"check_same_thread": False}, "hide_parameters": True}
        if not url.database or url.database == ":memory:":
            options["poolclass"] = StaticPool
        else:
            _make_private(Path(url.database))
    elif url.drivername == "postgresql+psycopg":
        options["connect_args"] = _PSYCOPG_ARGUMENTS
    try:
        engine = create_engine(url, **options)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        hint = f"{error}; its driver is not installed: for PostgreSQL, pip install 'edgecore[postgresql]'"
        raise DatabaseError("open the database", shown(url), hint) from error
    _set_up(engine, durable=durable)
    return engine


def _set_up(engine: Engine, *, durable: bool) -> None:
    if engine.dialect.name == "sqlite":
        synchronous = f"PRAGMA synchronous={'FULL' if durable else 'OFF'}"

        @event.listens_for(engine, "connect")
        def configure(connection: Any, _record: object) -> None:
            connection.isolation_level = None  # no implicit transactions
            for pragma in (*_SQLITE_PRAGMAS, synchronous):
                connection.execute(pragma)

        @event.listens_for(engine, "begin")
        def begin(connection: Any) -> None:
            if not connection.connection.driver_connection.in_transaction:
                connection.exec_driver_sql(BEGIN)

    elif engine.dialect.name == "postgresql":

        @event.listens_for(engine, "connect")
        def limit(connection: Any, _record: object) -> None:
            connection.autocommit = True
            cursor = connection.cursor()
            for setting in _POSTGRESQL_SETTINGS:
                cursor.execute(setting)
            cursor.close()
            connection.autocommit = False


def truncate_log(connection: Connection) -> bool:
    """Truncate SQLite's write-ahead log: it keeps values that a later commit has changed or deleted.

    Return whether it was truncated; it waits for no reader.
    """
    driver: Any = connection.connection.driver_connection
    with suppress(sqlite3.Error):
        driver.execute("PRAGMA busy_timeout=0")
        try:
            (is_busy, *_pages) = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            driver.execute(_BUSY_TIMEOUT)
        return not is_busy
    return False


def _make_private(path: Path) -> None:
    """Create the file with mode 0600, as it holds secrets; SQLite gives the files beside it the same mode."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        make_private(path)
    except OSError as error:
        raise DatabaseError("open the database", str(path), f"{advice(error)}; --database names the file") from error

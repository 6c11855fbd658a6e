"""The store on an SQLite file."""

import logging
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from beehive import Resource, ResourceType
from beehive.files.damaged import set_aside_unless_file
from beehive.files.reserve import Reserve
from metamanager import damage
from metamanager import statements as sql
from metamanager.errors import StoreDamagedError, StoreError, StoreOpenError, StoreWriteError
from metamanager.history import History
from metamanager.rows import UNNOTED, Cause, Row, row_of_columns
from metamanager.sqlite_open import BUSY_MILLISECONDS, NOT_TEXT, is_damage, open_file, reason_of

MOST_ROWS: Final = 64
"""Largest number of rows of one statement, a power of two."""

LONGEST: Final = 4096
"""Largest value in characters that waits: longer ones gain nothing, and SQLite keeps a copy with the statement."""

STATES: Final = 1024
"""Number of objects whose states are remembered."""

_ROW: Final = "(?, ?, ?, ?, ?, ?, ?, ?)"
_INT64: Final = range(-(2**63), 2**63)

State = tuple[str | None, int | None]
"""Stored uid and resourceVersion."""

Statement = tuple[str, list[str | int]]
"""SQL and its parameters."""

_log = logging.getLogger(__name__)

COMMITS_BETWEEN_LOOKS: Final = 256
"""Commits between two checks for free pages."""
SPARE_PAGES: Final = 256
"""Free pages (of 4 KiB) that stay in the file for later rows."""
_SECRET: Final = frozenset({ResourceType.SECRET, ResourceType.SERVICE_ACCOUNT_TOKEN})


class Puts:
    """Rows to write, and the states of objects.

    A statement for each row would cost half as much as the row itself, and release the interpreter to other threads,
    which return it late. `Store.put` has to return immediately whether the row replaces the stored one. The stored
    state determines that (`Row.supersedes`), so with remembered states the row can be written later: before the next
    read, or before the commit. The statement itself still replaces no newer state by an older one.
    """

    def __init__(self) -> None:
        self._states: dict[str, State] = {}
        self._rows: list[Row] = []

    def __len__(self) -> int:
        return len(self._rows)

    def state(self, key: str) -> State | None:
        """Return the state of an object; None if it is unknown."""
        return self._states.get(key)

    def remember_state(self, key: str, state: State) -> None:
        """Remember the present state of an object."""
        if len(self._states) >= STATES:
            self._states.clear()
        self._states[key] = state

    def forget_states(self) -> None:
        """Forget all states, because another connection may have changed rows."""
        self._states.clear()

    def add(self, row: Row) -> None:
        """Add a row that supersedes the stored one."""
        self._rows.append(row)
        self.remember_state(row.key, (row.uid, row.resource_version))

    @property
    def full(self) -> bool:
        """Whether the rows have to be written now."""
        return len(self._rows) >= MOST_ROWS

    def statements(self) -> Iterator[Statement]:
        """Yield the statements that write the waiting rows, in their order."""
        for begin, number in _shares(len(self._rows)):
            yield statement(self._rows[begin : begin + number])

    def written(self) -> None:
        """Remove the written rows."""
        self._rows.clear()

    def forget(self) -> None:
        """Remove the rows of a transaction that was rolled back, and forget all states."""
        self.written()
        self.forget_states()


def can_wait(row: Row) -> bool:
    """Return whether a row may wait: it is short, and SQLite will not refuse it. Others are written alone."""
    try:
        for text in (row.key, row.type, row.value, row.uid, row.namespace, row.name):
            if not text.isascii():
                text.encode()
    except UnicodeEncodeError:
        return False
    return len(row.value) <= LONGEST and row.resource_version in _INT64 and row.updated in _INT64


def statement(rows: list[Row]) -> Statement:
    """Return the statement that puts some rows."""
    parameters: list[str | int] = []
    for row in rows:
        parameters += (
            row.key, row.type, row.value, row.uid, row.resource_version, row.namespace, row.name, row.updated,
        )  # fmt: skip
    return _text(len(rows)), parameters


def _shares(number: int) -> Iterator[tuple[int, int]]:
    """Yield start and length of parts of `MOST_ROWS` rows at most. The lengths are powers of two: SQLite prepares a
    statement for each length.
    """
    begin = 0
    while begin < number:
        length = 1 << ((number - begin).bit_length() - 1)
        yield begin, length
        begin += length


@lru_cache(maxsize=MOST_ROWS.bit_length())
def _text(number: int) -> str:
    return sql.PUT.format(rows=", ".join([_ROW] * number))


class SqliteStore:
    """A `Store` in an SQLite file, by `sqlite3` and the statements of `metamanager.statements`.

    Write-ahead log with `synchronous=FULL`: a commit is one append and one fsync, and does not wait for readers
    (KubeEdge's tools, `sqlite3` on the node). The file contains secrets: it and the two files that SQLite makes beside
    it have mode 0600. Deleted rows are overwritten, and after the commit of a changed or deleted secret the log is
    truncated, so that no earlier value stays in a file.

    Args:
        path: of the file.
        keeps_room: whether to reserve room on the disk for deletions.

    Raises:
        StoreOpenError: the file cannot be opened.
    """

    def __init__(self, path: Path, *, keeps_room: bool = True) -> None:
        self.path = path
        self._connection = _open(path)
        self._execute = self._connection.execute
        self._commits = 0
        self._history = History(self._connection)
        self._puts = Puts()
        self._reserve = Reserve(path) if keeps_room else None
        if self._reserve is not None:
            self._reserve.fill()
        self._lost: StoreWriteError | None = None
        """Why waiting rows could not be written; every commit raises it until a rollback."""
        self._log_has_secrets = False
        """Whether the log may have a secret that was changed or deleted."""
        self._data_version = 0
        """SQLite's counter of other connections' changes."""

    def get(self, key: str) -> str | None:
        rows = self._read(sql.GET, {"key": key})
        return rows[0] if rows else None

    def get_all(self, kind: str, namespace: str | None = None) -> list[str]:
        if namespace is None:
            return self._read(sql.LIST, {"type": kind})
        return self._read(sql.LIST_IN, {"type": kind, "namespace": namespace})

    def rows(self) -> Iterator[Row]:
        self._write_waiting()
        try:
            for columns in self._execute(sql.ROWS):
                if type(columns[0]) is not str or type(columns[2]) is not str:
                    raise sqlite3.DatabaseError(NOT_TEXT)
                yield row_of_columns(columns)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._unreadable(error) from error

    def put(self, row: Row) -> bool:
        attempt = "store an object"
        self._begin(attempt, row.key)
        self._log_has_secrets |= row.type in _SECRET
        stored = self._puts.state(row.key) if can_wait(row) else None
        if stored is None:
            if self._write(*statement([row]), attempt, row.key):
                self._puts.remember_state(row.key, (row.uid, row.resource_version))
                self._history.record_stored(row)
                return True
            stored = self._state(row.key)
        elif row.supersedes(*stored):
            self._puts.add(row)
            self._history.record_stored(row)
            if self._puts.full:
                self._write_waiting()
            return True
        return stored is not None and row.equals(*stored)

    def delete(self, key: str, uid: str = "", cause: Cause = UNNOTED, now_ms: int = 0) -> bool:
        wanted = sql.DELETE_OF_UID if uid else sql.DELETE
        parameters = {"key": key, "uid": uid} if uid else {"key": key}
        if not self._remove(wanted, parameters, Resource.read(key).type, "delete an object", key):
            return False
        self._history.record_deletion(key, now_ms, cause, uid)
        return True

    def delete_owned(self, kind: str, uid: str) -> int:
        attempt = "delete the objects of an owner"
        return self._remove(sql.DELETE_OWNED, {"type": kind, "uid": uid}, kind, attempt, uid)

    def _remove(self, wanted: str, parameters: dict[str, str], kind: str, attempt: str, on: str) -> int:
        """Delete rows, and return their number."""
        self._begin(attempt, on)
        deleted = self._write(wanted, parameters, attempt, on)
        if deleted:
            self._puts.forget_states()
            self._log_has_secrets |= kind in _SECRET
        return deleted

    def commit(self) -> None:
        self._raise_if_lost()
        self._write_waiting()
        if not self._connection.in_transaction:
            return
        try:
            self._history.flush()
            self._execute("COMMIT")
        except sqlite3.Error as error:
            self.rollback()
            self._raise_if_damaged("commit", error)
            raise _write_error("commit", str(self.path), error, batch_lost=True) from error
        self._commits += 1
        if self._commits % COMMITS_BETWEEN_LOOKS == 0:
            self._shrink()
        lacks_reserve = self._reserve is not None and not self._reserve.there
        if (self._log_has_secrets or lacks_reserve) and self._truncate_log():
            self._log_has_secrets = False
        if self._reserve is not None and lacks_reserve:
            self._reserve.fill()

    def make_room(self) -> bool:
        had = self._reserve is not None and self._reserve.release()
        self._truncate_log()
        return had

    def rollback(self) -> None:
        self._lost = None
        self._history.forget()
        self._puts.forget()
        with suppress(sqlite3.Error):
            self._connection.rollback()

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.close()

    def _read(self, wanted: str, parameters: dict[str, str]) -> list[str]:
        self._write_waiting()
        try:
            found = [row[0] for row in self._execute(wanted, parameters)]
            if not all(type(each) is str for each in found):
                raise sqlite3.DatabaseError(NOT_TEXT)
            return found
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._unreadable(error) from error

    def _begin(self, attempt: str, on: str) -> None:
        """Begin a transaction unless one is open; forget the remembered states if another connection has written."""
        self._raise_if_lost()
        if self._connection.in_transaction:
            return
        try:
            self._execute("BEGIN IMMEDIATE")
            (version,) = self._execute("PRAGMA data_version").fetchone()
        except sqlite3.Error as error:
            self._raise_if_damaged(attempt, error)
            raise _write_error(attempt, on, error, batch_lost=False) from error
        if version != self._data_version:
            self._data_version = version
            self._puts.forget_states()

    def _write(self, wanted: str, parameters: Mapping[str, str] | Sequence[str | int], attempt: str, on: str) -> int:
        self._write_waiting()
        try:
            return self._execute(wanted, parameters).rowcount
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            self._raise_if_damaged(attempt, error)
            raise _write_error(attempt, on, error, batch_lost=not self._connection.in_transaction) from error

    def _write_waiting(self) -> None:
        """Write the waiting rows. `put` has reported them as stored: if they cannot be written, all changes since the
        last commit are lost, and every commit raises the error until a rollback.
        """
        if not self._puts:
            return
        try:
            for wanted in self._puts.statements():
                self._execute(*wanted)
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            self.rollback()
            self._raise_if_damaged("store objects", error)
            self._lost = _write_error("store objects", str(self.path), error, batch_lost=True)
            raise self._lost from error
        self._puts.written()

    def _raise_if_lost(self) -> None:
        if self._lost is not None:
            raise self._lost.with_traceback(None)

    def _state(self, key: str) -> State | None:
        try:
            return self._execute(sql.STATE, {"key": key}).fetchone()  # type: ignore[no-any-return]
        except sqlite3.Error as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> StoreError:
        """Return the error of a failed read. Raises StoreDamagedError if the file is damaged."""
        self._raise_if_damaged("read the database", error)
        return StoreError("read the database", str(self.path), reason_of(error), retryable=True)

    def _shrink(self) -> None:
        """Give free pages back to the disk; a failure is harmless and waits for the next check."""
        with suppress(sqlite3.Error):
            (free,) = self._execute("PRAGMA freelist_count").fetchone()
            if free > 2 * SPARE_PAGES:
                self._connection.executescript(f"PRAGMA incremental_vacuum({free - SPARE_PAGES})")

    def _truncate_log(self) -> bool:
        """Truncate the write-ahead log, if its contents fit into the file and no reader needs it; return whether it
        was truncated. It waits for nobody.
        """
        with suppress(sqlite3.Error):
            self._execute("PRAGMA busy_timeout=0")
            try:
                (is_busy, *_pages) = self._execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                self._execute(f"PRAGMA busy_timeout={BUSY_MILLISECONDS}")
            return not is_busy
        return False

    def _raise_if_damaged(self, attempt: str, error: Exception) -> None:
        if is_damage(error):
            damage.mark(self.path)
            hint = "it is damaged, and set aside when it is opened again"
            raise StoreDamagedError(attempt, str(self.path), hint) from error


def _open(path: Path) -> sqlite3.Connection:
    """Connect to the file; set a damaged one aside and copy its readable rows into a new one.

    A directory, a pipe or a dangling link in its place is set aside, but only under the name of a database, because a
    configuration may name any path.
    """
    if path.suffix == ".db":
        set_aside_unless_file(path, path.parent, links=True)
    if not damage.is_marked(path):
        try:
            return open_file(path)
        except StoreDamagedError as error:
            _log.error("%s", error)
    bad = damage.set_aside(path)
    rows = [] if bad is None else damage.readable_rows(bad)
    try:
        with closing(open_file(damage.new_path(path))) as connection:
            connection.execute("BEGIN IMMEDIATE")
            for row in rows:
                connection.execute(*statement([row]))
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise StoreOpenError("make a new database", str(path), reason_of(error)) from error
    damage.put_in_place(path)
    _log.error("database %s: %d objects could be read out of the damaged one", path, len(rows))
    return open_file(path)


def _write_error(attempt: str, on: str, error: Exception, *, batch_lost: bool) -> StoreWriteError:
    return StoreWriteError(attempt, on, reason_of(error), batch_lost=batch_lost)

"""The node's disk as the store sees it: slow, full, or locked by somebody else; and what is on it after a kill."""

import os
import shutil
from pathlib import Path

from metamanager.errors import StoreOpenError, StoreWriteError
from metamanager.needs import UNUSED
from metamanager.rows import UNNOTED, Cause, Row
from metamanager.sqlite_store import SqliteStore
from modules.simulate.row_watch import RowWatch
from modules.simulate.world import Process

DATABASE = "edgecore.db"
_FULL = 2
"""`PRAGMA synchronous`, from which on each commit is flushed to the disk."""


class Disk:
    """The state of one node's disk."""

    def __init__(self) -> None:
        self.full = 0
        """How many faults hold it full now; likewise the others."""
        self.locked = 0
        self.fsync = 0.004
        """Seconds of a commit."""
        self.slow = 0.0
        """Seconds that are added to it."""
        self.reserve = True
        """Whether room is kept free for deletions."""
        self.commits = 0
        self.flushed = 0
        """Bytes of the write-ahead log that a loss of power leaves."""

    def commit_seconds(self, process: Process) -> float:
        """How long the next commit takes."""
        usual = self.fsync + self.slow
        return process.clock.random.uniform(usual / 2, usual * 2)


class SimulatedStore:
    """The real store on such a disk (`metamanager.store.Store`)."""

    def __init__(self, path: Path, process: Process, disk: Disk, watch: RowWatch) -> None:
        if disk.locked or disk.full:
            raise StoreOpenError("open the database", path.name, "the disk is full or locked")
        self._inner = SqliteStore(path, keeps_room=False)
        self._log = path.with_name(path.name + "-wal")
        (level,) = self._inner._connection.execute("PRAGMA synchronous").fetchone()
        self._flushes = level >= _FULL
        disk.flushed = self._log_bytes()
        self._process = process
        self._disk = disk
        self._watch = watch
        watch.begin()
        self._may_use_reserve = False

    def get(self, key: str) -> str | None:
        return self._inner.get(key)

    def get_all(self, kind: str, namespace: str | None = None) -> list[str]:
        return self._inner.get_all(kind, namespace)

    def put(self, row: Row) -> bool:
        self._check("store an object", row.key)
        taken = self._inner.put(row)
        self._watch.put(row, taken=taken)
        return taken

    def delete(self, key: str, uid: str = "", cause: Cause = UNNOTED, now_ms: int = 0) -> bool:
        self._check("delete an object", key)
        deleted = self._inner.delete(key, uid, cause, now_ms)
        self._watch.deleted(key, "" if cause.text == UNUSED else uid)
        return deleted

    def delete_owned(self, kind: str, uid: str) -> int:
        self._check("delete the objects of an owner", uid)
        return self._inner.delete_owned(kind, uid)

    def commit(self) -> None:
        self._process.point()
        self._process.sleep(self._disk.commit_seconds(self._process))
        if self._disk.full and not self._may_use_reserve:
            self.rollback()
            raise StoreWriteError("commit", "edgecore.db", "database or disk is full", batch_lost=True)
        self._inner.commit()
        self._watch.committed()
        self._may_use_reserve = False
        self._disk.reserve = self._disk.reserve or not self._disk.full
        self._disk.commits += 1
        if self._flushes:
            self._disk.flushed = self._log_bytes()
        self._process.point()

    def make_room(self) -> bool:
        had, self._disk.reserve = self._disk.reserve, False
        self._may_use_reserve = had
        return had

    def rollback(self) -> None:
        self._inner.rollback()
        self._watch.begin()

    def close(self) -> None:
        self._inner.close()

    def _log_bytes(self) -> int:
        return self._log.stat().st_size if self._log.exists() else 0

    def _check(self, attempt: str, on: str) -> None:
        if self._disk.locked:
            raise StoreWriteError(attempt, on, "database is locked", batch_lost=False)


def copy_after_kill(old: Path, new: Path, flushed: int | None) -> None:
    """Make a directory with the database as it is on the disk at this moment: what is not committed is not in it.

    The old files stay open in the killed process's connection, which nobody uses any more.

    Args:
        old: where the files are.
        new: the directory, not made yet.
        flushed: after a loss of power, how much there is of the write-ahead log; None: all.
    """
    new.mkdir(mode=0o700)
    copy_database(old, new, DATABASE, flushed)


def copy_database(old: Path, new: Path, name: str, flushed: int | None) -> None:
    """Copy one database and its log; see `copy_after_kill`."""
    for suffix in ("", "-wal"):
        source = old / (name + suffix)
        if source.exists():
            shutil.copyfile(source, new / source.name)
    log = new / f"{name}-wal"
    if flushed is not None and log.exists():
        os.truncate(log, min(flushed, log.stat().st_size))

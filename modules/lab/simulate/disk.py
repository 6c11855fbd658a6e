"""The node's disk: slow, full, or locked by another process; and its contents after a kill."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from metamanager.errors import StoreOpenError, StoreWriteError
from metamanager.rows import UNNOTED, Cause, Row
from metamanager.sqlite_store import SqliteStore
from metamanager.unreferenced import UNUSED
from modules.lab.simulate.device_watch import DeviceWatch
from modules.lab.simulate.row_watch import RowWatch
from modules.lab.simulate.world import Process

DATABASE = "edgecore.db"
_FULL = 2
"""`PRAGMA synchronous`, above which each commit is flushed to the disk."""


class Disk:
    """State of one node's disk."""

    def __init__(self) -> None:
        self.full = 0
        """Number of active faults that keep it full."""
        self.locked = 0
        """Number of active faults that keep the database locked."""
        self.fsync = 0.004
        """Usual duration of a commit, in seconds."""
        self.slow = 0.0
        """Additional seconds of a slow disk."""
        self.reserve = True
        """Whether room is kept free for deletions."""
        self.refuses = False
        """Whether it has refused changes since the process started."""
        self.commits = 0
        self.flushed = 0
        """Bytes of the write-ahead log that survive a loss of power."""

    def commit_seconds(self, process: Process) -> float:
        """Return the duration of the next commit, in seconds."""
        usual = self.fsync + self.slow
        return process.clock.random.uniform(usual / 2, usual * 2)


class SimulatedStore:
    """The real store on a simulated disk (`metamanager.store.Store`)."""

    def __init__(
        self, path: Path, process: Process, disk: Disk, watch: RowWatch, devices: DeviceWatch | None = None
    ) -> None:
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
        self._devices = devices
        self._begin()
        self._may_use_reserve = False

    def get(self, key: str) -> str | None:
        return self._inner.get(key)

    def get_all(self, kind: str, namespace: str | None = None) -> list[str]:
        return self._inner.get_all(kind, namespace)

    def rows(self) -> Iterator[Row]:
        return self._inner.rows()

    def put(self, row: Row) -> bool:
        self._check("store an object", row.key)
        taken = self._inner.put(row)
        self._watch.put(row, taken=taken)
        if self._devices is not None and taken:
            self._devices.put(row)
        return taken

    def delete(self, key: str, uid: str = "", cause: Cause = UNNOTED, now_ms: int = 0) -> bool:
        self._check("delete an object", key)
        deleted = self._inner.delete(key, uid, cause, now_ms)
        self._watch.deleted(key, "" if cause.text == UNUSED else uid)
        if self._devices is not None and deleted:
            self._devices.deleted(key)
        return deleted

    def delete_owned(self, kind: str, uid: str) -> int:
        self._check("delete the objects of an owner", uid)
        return self._inner.delete_owned(kind, uid)

    def commit(self) -> None:
        self._process.point()
        self._process.sleep(self._disk.commit_seconds(self._process))
        if self._disk.full and not self._may_use_reserve:
            self.rollback()
            self._disk.refuses = True
            raise StoreWriteError("commit", "edgecore.db", "database or disk is full", batch_lost=True)
        self._inner.commit()
        self._watch.committed()
        if self._devices is not None:
            self._devices.committed()
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
        self._begin()

    def close(self) -> None:
        self._inner.close()

    def _begin(self) -> None:
        self._watch.begin()
        if self._devices is not None:
            self._devices.begin()

    def _log_bytes(self) -> int:
        return self._log.stat().st_size if self._log.exists() else 0

    def _check(self, attempt: str, on: str) -> None:
        if self._disk.locked:
            self._disk.refuses = True
            raise StoreWriteError(attempt, on, "database is locked", batch_lost=False)


def copy_after_kill(old: Path, new: Path, flushed: int | None) -> None:
    """Copy the database as it is on the disk now, without uncommitted changes, into a new directory.

    The old files stay open in the killed process's connection, which is no longer used.

    Args:
        old: directory of the files.
        new: the directory, which does not exist yet.
        flushed: bytes of the write-ahead log after a loss of power; None for all of it.
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

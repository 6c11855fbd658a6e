"""The database of a simulated cloudcore, and its failures."""

import sqlite3
from pathlib import Path
from sqlite3 import OperationalError
from typing import Any, Final

from sqlalchemy import Connection

from modules.cloud.storage.database.database import Database
from modules.cloud.storage.database.errors import DatabaseError
from modules.cloud.storage.database.room import Room
from modules.lab.simulate.world import World

_GONE: Final = "the server closed the connection unexpectedly"
_FULL: Final = "database or disk is full"
_IN_RESERVE: Final = 40
"""Transactions that the room of a reserve has on a full disk."""


class FullDiskError(OperationalError):
    """The driver's error for a full disk."""

    sqlite_errorcode = sqlite3.SQLITE_FULL


class SimulatedDatabaseServer:
    """The server of a database, or its disk; faults change it.

    Args:
        world: source of randomness.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.fails = 0.0
        """Share of the transactions that cannot begin."""
        self.loses = 0.0
        """Share of the commits that are carried out, and whose answers are lost."""
        self.full = 0.0
        """Share of the statements and commits for which there is no room on the disk."""
        self.freed = 0
        """Transactions for which a reserve that was given up has room."""
        self.was_short = False
        """Whether a reserve was ever given up: then changes were left out."""

    def fail_if(self, share: float, attempt: str) -> None:
        """Fail with a probability of `share`.

        Raises:
            OperationalError: as the driver raises it.
        """
        if share > 0 and self._world.random.random() < share:
            self._world.log_line("database", f"{attempt}: {_GONE}")
            self._world.expected.add(DatabaseError)
            raise OperationalError(_GONE)

    def fail_if_full(self, attempt: str) -> None:
        """Fail as on a full disk, unless the room of a reserve is left.

        Raises:
            FullDiskError: as the driver raises it.
        """
        if self.full <= 0 or self._world.random.random() >= self.full:
            return
        if self.freed > 0:
            self.freed -= 1
            return
        self._world.log_line("database", f"{attempt}: {_FULL}")
        self._world.expected.add(DatabaseError)
        raise FullDiskError(_FULL)


class SimulatedRoom(Room):
    """The reserve of a database on a simulated disk.

    Args:
        server: has the disk.
    """

    def __init__(self, server: SimulatedDatabaseServer) -> None:
        super().__init__()
        self._server = server
        self._is_there = True

    def give(self) -> bool:
        """Give up the reserve; see `Room`."""
        if not self._is_there:
            return False
        self._is_there, self.is_short, self._server.was_short = False, True, True
        self._server.freed = _IN_RESERVE
        return True

    def fill(self) -> bool:
        """Make the reserve if the disk has room; see `Room`."""
        self._is_there = self._is_there or self._server.full <= 0
        has_ended = self.is_short and self._is_there
        self.is_short = self.is_short and not has_ended
        return has_ended


class FailingDatabase(Database):
    """A database as cloudcore uses it, that fails when its server does.

    Args:
        server: of all users of the database.
        url: as for `Database`, and so are the others.
    """

    def __init__(self, server: SimulatedDatabaseServer, url: str, cloudcore: str, **options: Any) -> None:
        super().__init__(url, cloudcore, durable=False, **options)
        self._server = server

    def _connect(self) -> Connection:
        if self.outlives_process:
            self._server.fail_if(self._server.fails, "begin")
        return super()._connect()

    def _write(self, connection: Connection, version: int) -> None:
        if self.outlives_process:
            self._server.fail_if_full("write")
        super()._write(connection, version)
        if self.outlives_process:
            self._server.fail_if_full("commit")

    def _make_durable(self) -> None:
        super()._make_durable()
        if self.outlives_process:
            self._server.fail_if(self._server.loses, "commit")


def remove_database(path: Path) -> None:
    """Delete the files of a database of SQLite."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)

"""The database of a simulated cloudcore, and its failures."""

from sqlite3 import OperationalError
from typing import Any

from sqlalchemy import Connection

from modules.cloud.storage.database.database import Database
from modules.cloud.storage.database.errors import DatabaseError
from modules.lab.simulate.world import World

_GONE = "the server closed the connection unexpectedly"


class SimulatedDatabaseServer:
    """The server of a database; faults change it.

    Args:
        world: source of randomness.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.fails = 0.0
        """Share of the transactions that cannot begin."""
        self.loses = 0.0
        """Share of the commits that are carried out, and whose answers are lost."""

    def fail_if(self, share: float, attempt: str) -> None:
        """Fail with a probability of `share`.

        Raises:
            OperationalError: as the driver raises it.
        """
        if share > 0 and self._world.random.random() < share:
            self._world.log_line("database", f"{attempt}: {_GONE}")
            self._world.expected.add(DatabaseError)
            raise OperationalError(_GONE)


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

    def _make_durable(self) -> None:
        super()._make_durable()
        if self.outlives_process:
            self._server.fail_if(self._server.loses, "commit")

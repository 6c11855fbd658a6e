"""Hears at once that another cloudcore has changed the database, where that can say so: PostgreSQL's LISTEN.

An actor of its own with a connection of its own, for it does nothing but wait. What is told is no more than that there
is something; what it is, the next turn reads. A notification that is lost costs the time until the next look.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from sqlalchemy import Engine

from beehive.actor import Actor
from modules.edgecontroller.database.database import CHANNEL

_WAIT = 1.0
"""Seconds after which it looks whether it is to end."""


class Listen(msgspec.Struct, frozen=True):
    """Wait for a while."""


def can_listen(engine: Engine) -> bool:
    """Whether the database tells of changes, and its driver lets one wait for that."""
    return engine.dialect.name == "postgresql" and engine.dialect.driver == "psycopg"


class Listener(Actor):
    """See the module's docstring. Fails with its connection, and its module with it.

    Args:
        engine: the database.
        notified: called when something has changed.
    """

    def __init__(self, engine: Engine, notified: Callable[[], None]) -> None:
        super().__init__()
        self._engine = engine
        self._notified = notified
        self._connection: Any = None

    def on_start(self) -> None:
        """Listens."""
        self._connection = self._engine.raw_connection()
        driver = self._connection.driver_connection
        driver.autocommit = True
        driver.execute(f"LISTEN {CHANNEL}")

    def on_receive(self, message: object) -> None:
        """Takes a `Listen`, and asks itself for the next."""
        if not isinstance(message, Listen):
            return
        notes = list(self._connection.driver_connection.notifies(timeout=_WAIT, stop_after=1))
        if notes:
            self._notified()
        if not self.actor_stopped.is_set():
            self.actor_ref.tell(Listen())

    def on_stop(self) -> None:
        """Listens no more."""
        self._end()

    def on_failure(self, *_error: object) -> None:
        """Listens no more."""
        self._end()

    def _end(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()

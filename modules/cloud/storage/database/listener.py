"""PostgreSQL's notifications of changes by other cloudcores."""

import threading
from collections.abc import Callable
from typing import Any

import msgspec
from sqlalchemy import Engine

from beehive.actor import Actor
from beehive.context import ModuleContext
from modules.cloud.storage.database.database import CHANNEL, Database

_WAIT = 0.25
"""Seconds after which the actor checks whether it is to stop."""
_POLL_PERIOD = 0.25
"""Seconds between two polls for the changes of other cloudcores."""
_POLL_PERIOD_ALONE = 1.0
"""The same while no other cloudcore is known: the first that it changes is its Lease."""
_POLL_PERIOD_WITH_NOTIFICATIONS = 5.0


class Listen(msgspec.Struct, frozen=True):
    """A request that the listener wait for a notification for a while."""


def can_listen(engine: Engine) -> bool:
    """Return whether the database sends notifications, and its driver can wait for them."""
    return engine.dialect.name == "postgresql" and engine.dialect.driver == "psycopg"


def poll_for_changes(
    module: ModuleContext, database: Database, poll: Callable[[], None], is_alone: Callable[[], bool]
) -> None:
    """Call a function of a module now and then, and when another cloudcore notifies it, if there can be others. One
    module of a process does so for all: each look wakes two threads of an idle cloudcore.

    Args:
        module: the module.
        database: what it looks at.
        poll: takes the changes over.
        is_alone: whether no other cloudcore is known now.
    """

    def poll_again() -> None:
        module.after(_POLL_PERIOD_ALONE if is_alone() else _POLL_PERIOD, poll_again)
        if database.may_have_changed():
            poll()

    if not database.shared:
        return
    if not can_listen(database.engine):
        module.after(_POLL_PERIOD, poll_again)
    else:
        module.every(_POLL_PERIOD_WITH_NOTIFICATIONS, poll)
        looks = Looks(module.call_soon, poll)
        started = module.start_actor(DatabaseListener, database.engine, database.cloudcore, looks.ask)
        started.tell(Listen())


class Looks:
    """A look for changes, one for all notifications that come before it.

    Args:
        call_soon: of the module.
        look: called on its thread.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], None], look: Callable[[], None]) -> None:
        self._call_soon = call_soon
        self._look = look
        self._is_asked = threading.Event()

    def ask(self) -> None:
        """Have a look soon; on any thread."""
        if not self._is_asked.is_set():
            self._is_asked.set()
            self._call_soon(self._run)

    def _run(self) -> None:
        self._is_asked.clear()  # before it: what is announced from now on may come too late for it
        self._look()


class DatabaseListener(Actor):
    """The actor that waits for notifications of another cloudcore's changes, by PostgreSQL's LISTEN on a connection of
    its own.

    A notification only announces that there are changes; the next transaction reads them. A lost one costs the time
    until the next poll. The actor, and its module with it, fails with the connection.

    Args:
        engine: the database.
        cloudcore: this one, whose own notifications do not count.
        notified: called after a notification, on the actor's thread.
    """

    def __init__(self, engine: Engine, cloudcore: str, notified: Callable[[], None]) -> None:
        super().__init__()
        self._engine = engine
        self._cloudcore = cloudcore
        self._notified = notified
        self._connection: Any = None

    def on_start(self) -> None:
        """Connect and listens."""
        self._connection = self._engine.raw_connection()
        driver = self._connection.driver_connection
        driver.autocommit = True
        driver.execute(f"LISTEN {CHANNEL}")

    def on_receive(self, message: object) -> None:
        """Handle a `Listen`, and send itself the next."""
        if not isinstance(message, Listen):
            return
        notes = list(self._connection.driver_connection.notifies(timeout=_WAIT, stop_after=1))
        if any(note.payload != self._cloudcore for note in notes):
            self._notified()
        if not self.actor_stopped.is_set():
            self.actor_ref.tell(Listen())

    def on_end(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()

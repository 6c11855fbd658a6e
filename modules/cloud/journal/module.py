"""The module `journal`."""

import logging
from collections.abc import Callable
from typing import Any, ClassVar, Final

from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from beehive.names import ModuleName, Operation
from beehive.printable import clipped
from beehive.resource import Side
from modules.cloud.journal.store import MARK_PERIOD, LinkStore
from modules.cloud.messages import JOURNAL, LINKS, ConnectEvent, LinkQuery, LinkSession
from modules.cloud.storage.database.errors import DatabaseError

_log = logging.getLogger(__name__)

_DELAY: Final = 0.5
"""Seconds for which events are collected, so that many nodes that connect together share a transaction."""
_AGAIN: Final = 5.0
"""Seconds after which a transaction that has failed is tried again."""
_MOST_WAITING: Final = 20_000
"""Events that wait for the database; the oldest are dropped."""
_LONGEST_NAME: Final = 253


class Journal(Module):
    """Keeps the link journal: when each node was connected, from where, and why a connection ended.

    cloudhub reports connections with the events that the controllers get, too. They are written a moment later; a
    cloudcore that is killed within it loses them, and the ends of its connections are those of its last sign of life.

    Args:
        make_store: opens the database, on the module's thread.
        is_short: whether the disk is full, so that only what nodes need is written.
    """

    name: ClassVar[str] = JOURNAL
    group: ClassVar[str] = JOURNAL
    side: ClassVar[Side] = Side.CLOUD

    def __init__(self, make_store: Callable[[], LinkStore], is_short: Callable[[], bool] = lambda: False) -> None:
        super().__init__()
        self._make_store = make_store
        self._is_short = is_short
        self._store: LinkStore | None = None
        self._began: list[LinkSession] = []
        self._ended: list[LinkSession] = []
        self._is_due = False
        self._is_failing = False

    def on_start(self) -> None:
        """Open the database, and begin to leave signs of life in it."""
        self._mark()
        self.every(MARK_PERIOD, self._mark)

    def on_stop(self) -> None:
        """Write what waits; cloudhub, which stops before, has ended all connections."""
        self._write()
        self._close()

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        """Close the database."""
        self._close()
        super().on_failure(exception_type, exception_value, traceback)

    @handles(None, Operation.CONNECTED, source=ModuleName.CLOUDHUB)
    def on_connected(self, message: Message) -> None:
        """Note that a connection has begun."""
        event = message.content_as(ConnectEvent)
        if len(event.client_id) <= _LONGEST_NAME:
            self._began.append(_session(event, began=float(event.timestamp)))
            self._wait()

    @handles(None, Operation.DISCONNECTED, source=ModuleName.CLOUDHUB)
    def on_disconnected(self, message: Message) -> None:
        """Note that a connection has ended."""
        event = message.content_as(ConnectEvent)
        self._ended.append(_session(event, ended=float(event.timestamp)))
        self._wait()

    @handles(None, LINKS)
    def read(self, message: Message) -> None:
        """Reply with the connections that a `LinkQuery` selects, those that wait for the database included."""
        self._write()
        try:
            self.reply(message, self._opened().read(message.content_as(LinkQuery)))
        except DatabaseError as error:
            self.respond(message.error(self.clock, str(error)))

    def _wait(self) -> None:
        del self._began[:-_MOST_WAITING], self._ended[:-_MOST_WAITING]
        if not self._is_due:
            self._is_due = True
            self.after(_DELAY, self._write_due)

    def _write_due(self) -> None:
        self._is_due = False
        if not self._write():
            self._is_due = True
            self.after(_AGAIN, self._write_due)

    def _write(self) -> bool:
        """Write what waits, and return whether nothing waits any more."""
        if not (self._began or self._ended):
            return True
        if self._is_short():
            return False
        began, ended = self._began, self._ended
        if self._attempt(lambda store: store.write(began, ended, self.clock.now())):
            self._began, self._ended = [], []
            return True
        return False

    def _mark(self) -> None:
        if not self._is_short():
            self._attempt(lambda store: store.mark(self.clock.now()))

    def _attempt(self, work: Callable[[LinkStore], None]) -> bool:
        """Use the database, and return whether that succeeded; the first failure of several is logged."""
        try:
            work(self._opened())
        except DatabaseError as error:
            if not self._is_failing:
                _log.warning("the link journal has gaps: %s", error)
            self._is_failing = True
            return False
        self._is_failing = False
        return True

    def _opened(self) -> LinkStore:
        if self._store is None:
            self._store = self._make_store()
        return self._store

    def _close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()


def _session(event: ConnectEvent, *, began: float = 0.0, ended: float = 0.0) -> LinkSession:
    return LinkSession(
        node=event.client_id, connection=event.connection, cloudcore="", began=began, ended=ended,
        reason=clipped(event.reason), address=event.address, certificate_ends=event.certificate_ends,
    )  # fmt: skip

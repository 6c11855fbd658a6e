"""The module `journal`."""

import logging
from collections import Counter, deque
from collections.abc import Callable
from itertools import islice
from typing import ClassVar, Final, TypeVar

from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from beehive.names import ModuleName, Operation
from beehive.printable import clipped
from beehive.resource import Side
from modules.cloud.device_values import REPORTED, VALUES, DeviceValue, ValueList, ValueQuery
from modules.cloud.journal.database import JournalDatabase
from modules.cloud.journal.device_values import MOST_OF_PROPERTY, ValueStore
from modules.cloud.journal.links import MARK_PERIOD, LinkStore
from modules.cloud.journal.writes import WriteStore
from modules.cloud.messages import LINKS, ConnectEvent, LinkQuery, LinkSession
from modules.cloud.object_writes import JOURNAL, NOTED, WRITES, WRITTEN, ObjectWrite, WriteList, WriteQuery
from modules.cloud.storage.database.errors import DatabaseError

_log = logging.getLogger(__name__)

_DELAY: Final = 0.5
"""Seconds to collect events, so that many nodes that connect together share a transaction."""
_AGAIN: Final = 5.0
"""Seconds after which a transaction that has failed is tried again."""
_MOST_WAITING: Final = 20_000
"""Events, writes, and values that wait for the database. Of too many writes or values, the user or node that has most
of them loses the older half of its own.
"""
_MOST_WRITTEN: Final = 500
"""Writes, or values, of one transaction: nobody else may use the database meanwhile."""
_LONGEST_NAME: Final = 253

T = TypeVar("T")


class Journal(Module):
    """The module that keeps the link journal: when each node was connected, from where, and why a connection ended; the
    change journal: who changed which object, and who let in or locked out whom; and the device history: which values
    were reported.

    cloudhub reports connections with the events that the controllers get, too, the embedded API server reports writes
    after their commit, and devicecontroller values that a DeviceStatus has. They are written a moment later; a
    cloudcore that is killed within it loses them, and its connections count as ended at its last sign of life.

    Args:
        open_database: opens the database, on the module's thread.
        cloudcore: identifies this process among all that use it.
        is_short: whether the disk is full, so that only what nodes need is written.
        keeps_writes: whether writes are in the change journal; not in front of a cluster.
        most_values: values of a property in the device history; 0 for no history.
    """

    name: ClassVar[str] = JOURNAL
    group: ClassVar[str] = JOURNAL
    side: ClassVar[Side] = Side.CLOUD

    def __init__(
        self,
        open_database: Callable[[], JournalDatabase],
        cloudcore: str,
        is_short: Callable[[], bool] = lambda: False,
        *,
        keeps_writes: bool = True,
        most_values: int = MOST_OF_PROPERTY,
    ) -> None:
        super().__init__()
        self._open = open_database
        self._cloudcore = cloudcore
        self._is_short = is_short
        self._keeps_writes = keeps_writes
        self._database: JournalDatabase | None = None
        self._writes: deque[ObjectWrite] = deque()
        """Writes that wait for the database."""
        self._accesses: deque[ObjectWrite] = deque()
        """Accesses that wait for the database."""
        self._most_values = most_values
        self._values: deque[DeviceValue] = deque()
        """Values that wait for the database."""
        self._swept = 0
        """Up to which property values that are too old were deleted."""
        self._began: list[LinkSession] = []
        self._ended: list[LinkSession] = []
        self._is_due = False
        self._is_failing = False

    def on_start(self) -> None:
        """Open the database, and begin to leave signs of life in it."""
        self._mark()
        self.every(MARK_PERIOD, self._mark)

    def on_stop(self) -> None:
        """Write the waiting entries; cloudhub, which stops before, has ended all connections."""
        self._write()
        super().on_stop()

    def on_end(self) -> None:
        """Close the database."""
        database, self._database = self._database, None
        if database is not None:
            database.close()

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
        """Reply with the connections that a `LinkQuery` selects, also when they wait for the database."""
        self._write()
        try:
            self.reply(message, self._links().read(message.content_as(LinkQuery)))
        except DatabaseError as error:
            self.respond(message.error(self.clock, str(error)))

    @handles(None, WRITTEN)
    def on_written(self, message: Message) -> None:
        """Note writes of objects."""
        if self._keeps_writes:
            self._writes = _bounded(self._writes, message.content_as(list[ObjectWrite]), lambda each: each.user)
            self._wait()

    @handles(None, NOTED)
    def on_accesses(self, message: Message) -> None:
        """Note accesses that were given, taken or used."""
        self._accesses = _bounded(self._accesses, message.content_as(list[ObjectWrite]), lambda each: each.user)
        self._wait()

    @handles(None, WRITES)
    def read_writes(self, message: Message) -> None:
        """Reply with the writes that a `WriteQuery` selects, also when they wait for the database."""
        query = message.content_as(WriteQuery)
        self._write()
        try:
            found = WriteStore(self._opened()).read(query)
            self.reply(message, WriteList(found.writes, found.more, is_kept=self._keeps_writes))
        except DatabaseError as error:
            self.respond(message.error(self.clock, str(error)))

    @handles(None, REPORTED, source=ModuleName.DEVICECONTROLLER)
    def on_reported(self, message: Message) -> None:
        """Note values of devices."""
        if self._most_values:
            self._values = _bounded(self._values, message.content_as(list[DeviceValue]), lambda each: each.node)
            self._wait()

    @handles(None, VALUES)
    def read_values(self, message: Message) -> None:
        """Reply with the values that a `ValueQuery` selects, also when they wait for the database."""
        query = message.content_as(ValueQuery)
        self._write()
        try:
            self.reply(message, self._store().read(query, self.clock.now()) if self._most_values else ValueList())
        except DatabaseError as error:
            self.respond(message.error(self.clock, str(error)))

    def _wait(self) -> None:
        del self._began[:-_MOST_WAITING], self._ended[:-_MOST_WAITING]
        if not self._is_due:
            self._is_due = True
            self.after(_DELAY, self._write_due)

    def _write_due(self) -> None:
        self._is_due = False
        if not self._write_part():
            self._is_due = True
            self.after(_AGAIN, self._write_due)
        elif self._writes or self._accesses or self._values:
            self._wait()

    def _write(self) -> None:
        """Write all that waits, as far as that succeeds."""
        while self._is_waiting and self._write_part():
            pass

    @property
    def _is_waiting(self) -> bool:
        return bool(self._began or self._ended or self._writes or self._accesses or self._values)

    def _write_part(self) -> bool:
        """Write the connections and a part of the writes and values that wait, and return whether that succeeded."""
        if self._is_short():
            return not self._is_waiting
        began, ended = self._began, self._ended
        if began or ended:
            if not self._attempt(lambda: self._links().write(began, ended, self.clock.now())):
                return False
            self._began, self._ended = [], []
        return (
            self._write_some(self._writes, lambda part: WriteStore(self._opened()).write(part))
            and self._write_some(self._accesses, lambda part: WriteStore(self._opened()).write_accesses(part))
            and self._write_some(self._values, lambda part: self._store().write(part, self.clock.now()))
        )

    def _write_some(self, waiting: deque[T], write: Callable[[list[T]], None]) -> bool:
        """Write the first entries that wait, and return whether that succeeded."""
        part = list(islice(waiting, _MOST_WRITTEN))
        if part and not self._attempt(lambda: write(part)):
            return False
        for _ in part:
            waiting.popleft()
        return True

    def _mark(self) -> None:
        if not self._is_short():
            self._attempt(lambda: self._links().mark(self.clock.now()))
            self._attempt(lambda: WriteStore(self._opened()).forget(self.clock.now()))
            self._attempt(self._sweep)

    def _sweep(self) -> None:
        self._swept = self._store().forget(self.clock.now(), self._swept)

    def _attempt(self, work: Callable[[], None]) -> bool:
        """Use the database, and return whether that succeeded; the first failure of several is logged."""
        try:
            work()
        except DatabaseError as error:
            if not self._is_failing:
                _log.warning("the journals have gaps: %s", error)
            self._is_failing = True
            return False
        self._is_failing = False
        return True

    def _store(self) -> ValueStore:
        return ValueStore(self._opened(), self._most_values)

    def _links(self) -> LinkStore:
        return LinkStore(self._opened(), self._cloudcore)

    def _opened(self) -> JournalDatabase:
        if self._database is None:
            self._database = self._open()
        return self._database


def _bounded(waiting: deque[T], new: list[T], owner: Callable[[T], str]) -> deque[T]:
    """Append new ones to the waiting ones; of too many, drop the older half of the owner with the most."""
    waiting.extend(new)
    while len(waiting) > _MOST_WAITING:
        ((largest, number),) = Counter(map(owner, waiting)).most_common(1)
        older = {id(each) for each in islice((each for each in waiting if owner(each) == largest), (number + 1) // 2)}
        waiting = deque(each for each in waiting if id(each) not in older)
    return waiting


def _session(event: ConnectEvent, *, began: float = 0.0, ended: float = 0.0) -> LinkSession:
    return LinkSession(
        node=event.client_id, connection=event.connection, cloudcore="", began=began, ended=ended,
        reason=clipped(event.reason), address=event.address, certificate_ends=event.certificate_ends,
    )  # fmt: skip

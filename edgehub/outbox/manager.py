"""Connects the outbox to edgehub's module."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import pykka

from beehive import Actor, FrameError, ModuleContext, Timer, decode
from beehive.on_failure import on_failure
from edgehub.classes import Entry, classify
from edgehub.counters import LinkCounters
from edgehub.errors import OutboxError
from edgehub.outbox.store import OpenOutbox, OutboxStore, StoredMessage
from edgehub.outgoing import OutboxChanges, Outgoing

RETRY_AFTER: Final = 10.0
"""Seconds after which a failed open or write is repeated."""

REMOVAL_INTERVAL: Final = 1.0
"""Seconds between two flushes that only remove rows: a removal lost in a crash only costs a repetition."""

EVENT_SECONDS: Final = 2.0
"""Seconds that the cloud has to read events before they are written."""

WRITTEN: Final = "written"
"""Name of the turn in which edgehub takes the result of a write."""

_NO_CLOCK: Final = 1_700_000_000_000
"""Milliseconds since the Unix epoch; an earlier wall clock comes from a board booted without a battery."""


class Write(OutboxChanges):
    """Changes to write."""

    __slots__ = ()


class OutboxWriter(Actor):
    """The actor that writes changes to the outbox on its own thread.

    A flush may take seconds on a worn card. On the module's thread it would delay acknowledgements and keepalives, and
    the cloud would take the node for dead. While one change is written, the next one grows: the slower the disk, the
    more messages share a flush.

    Args:
        store: open; closed when the actor ends.
        manager: knows the wall clock, and takes the result of each write.
    """

    def __init__(self, store: OutboxStore, manager: OutboxManager) -> None:
        super().__init__()
        self._store = store
        self._manager = manager

    def on_receive(self, message: object) -> None:
        """Write a change."""
        if isinstance(message, Write):
            put = [StoredMessage(one.serial, self._manager.to_wall(one.accepted), one.frame) for one in message.put]
            try:
                self._store.change(put, message.gone)
            except OutboxError as error:
                self._manager.report_write(message, error)
            else:
                self._manager.report_write(message, None)

    def on_stop(self) -> None:
        """Close the store."""
        self._store.close()


_log = logging.getLogger(__name__)


class OutboxManager:
    """The manager of the outbox, which opens it, writes one change at a time, and releases messages that have settled.

    It runs on the module's thread and leaves writing to the `OutboxWriter`.

    Args:
        context: edgehub.
        outgoing: the messages for the cloud.
        open_outbox: opens the store; None keeps messages in memory only.
        counters: of the link.
        send_waiting: sends the messages that may leave now.
    """

    def __init__(
        self,
        context: ModuleContext,
        outgoing: Outgoing,
        open_outbox: OpenOutbox | None,
        counters: LinkCounters,
        send_waiting: Callable[[], None],
    ) -> None:
        self._context = context
        self._send_waiting = send_waiting
        self._outgoing = outgoing
        self._ledger = outgoing.ledger
        self._open_outbox = open_outbox
        self._counters = counters
        self._writer: pykka.ActorRef[OutboxWriter] | None = None
        self._writing = False
        self._failed = False
        self._settling: Timer | None = None
        self._gathering: Timer | None = None
        """Runs while events wait to be written."""
        self._retrying: Timer | None = None
        """Runs after a write that failed, one for all: each message is tried at once, too, while the disk is full."""
        self._taken = 0
        """Highest serial when the write under way began."""
        self._when_written: list[tuple[int, Callable[[], None]]] = []

    def start(self) -> None:
        """Open the store and queue its messages; on failure, retry later."""
        if self._open_outbox is None:
            return
        try:
            store, found = _loaded(self._open_outbox)
        except OutboxError as error:
            self._fail(error)
            self._context.after(RETRY_AFTER, self._start_again)
            return
        self._attach(store, found)

    def changed(self) -> None:
        """Write pending entries, unless a write is under way; then they follow it. Events wait for other entries, at
        most `EVENT_SECONDS`. Without any, all messages are written, or have arrived while the store was failing.
        """
        if self._writer is None or self._writing:
            return
        if self._ledger.holds_back:
            self._write(self._writer)
            return
        if self._ledger.unwritten and self._gathering is None:
            self._gathering = self._context.after(EVENT_SECONDS, self._write_events)
        if self._when_written:
            self._taken = self._ledger.last
            self._report_written()

    def _write_again(self) -> None:
        self._retrying = None
        self.changed()

    def _write_events(self) -> None:
        self._gathering = None
        if self._writer is not None and not self._writing and self._ledger.unwritten:
            self._write(self._writer)

    def when_written(self, then: Callable[[], None]) -> None:
        """Call `then` when all messages accepted so far are in the store, or have arrived; immediately without one."""
        if self._open_outbox is None or not (self._writing or self._ledger.holds_back or self._writer is None):
            then()
        else:
            self._when_written.append((self._ledger.last, then))

    def settle(self) -> None:
        """Release the messages that have settled, and schedule the next release."""
        now = self._context.clock.monotonic()
        until = self._outgoing.settled(now)
        if self._settling is None and (until is not None or self._ledger.removals):
            self._settling = self._context.after(max(REMOVAL_INTERVAL, (until or now) - now), self._settle_again)

    def stop(self) -> None:
        """Release all confirmed messages and write the last change, before the process ends."""
        self._outgoing.release_settling()
        if self._writer is not None:
            self._write(self._writer)

    def _settle_again(self) -> None:
        self._settling = None
        self._outgoing.settled(self._context.clock.monotonic())
        if self._writer is not None and not self._writing and self._ledger.removals:
            self._write(self._writer)
        self.settle()

    def _start_again(self) -> None:
        self.start()
        self._send_waiting()

    def _attach(self, store: OutboxStore, found: list[StoredMessage]) -> None:
        entries = [entry for entry in map(self._entry, found) if entry is not None]
        self._outgoing.attach(entries, last=max((kept.serial for kept in found), default=0))
        self._counters.outbox_restored += len(entries)
        if entries:
            _log.info("%d messages of an earlier run wait for the cloud", len(entries))
        self._writer = self._context.start_actor(OutboxWriter, store, self)
        self.changed()

    def _entry(self, kept: StoredMessage) -> Entry | None:
        """Return a stored message as an entry; None for a row that is no message, written by another program."""
        try:
            message = decode(kept.frame)
        except FrameError as error:
            _log.error("an entry of the outbox is not a message (%s); it is left out", error)
            return None
        clock = self._context.clock
        age = max(0.0, clock.now() - kept.accepted / 1000) if kept.accepted > _NO_CLOCK else 0.0
        return Entry(message.with_content(None), kept.frame, classify(message), clock.monotonic() - age, kept.serial)

    def to_wall(self, accepted: float) -> int:
        """Convert monotonic seconds to milliseconds since the Unix epoch."""
        clock = self._context.clock
        return int((clock.now() - (clock.monotonic() - accepted)) * 1000)

    def _write(self, writer: pykka.ActorRef[OutboxWriter]) -> None:
        self._writing = True
        self._taken = self._ledger.last
        writer.tell(Write(*self._ledger.drain()))

    def report_write(self, changes: OutboxChanges, error: OutboxError | None) -> None:
        """Take a result, on the writer's thread."""
        self._context.call_soon(lambda: self._handle_written(changes, error), WRITTEN)

    def _handle_written(self, changes: OutboxChanges, error: OutboxError | None) -> None:
        self._writing = False
        if error is not None:
            self._ledger.refused(changes, self._outgoing.all_entries())
            self._fail(error)
            self._retrying = self._retrying or self._context.after(RETRY_AFTER, self._write_again)
        else:
            if self._failed:
                _log.warning("the outbox can be written again")
            self._failed = False
            self._counters.outbox_writes += 1
            self._ledger.wrote(changes)
            self._report_written()
            self.changed()
        self._send_waiting()

    def _report_written(self) -> None:
        """Report the messages of the last write; while the store is not open, messages have no serials yet."""
        written = [then for serial, then in self._when_written if serial <= self._taken]
        self._when_written = [one for one in self._when_written if one[0] > self._taken]
        for then in written:
            then()

    def _fail(self, error: OutboxError) -> None:
        """Count and log a failure. Messages leave nevertheless; unwritten ones are lost if the process dies."""
        self._counters.outbox_failures += 1
        if not self._failed:
            _log.error("%s; messages for the cloud are only in memory meanwhile", error)
        self._failed = True


def _loaded(open_outbox: OpenOutbox) -> tuple[OutboxStore, list[StoredMessage]]:
    """Open the store, and return it with its messages. Raises OutboxError."""
    store = open_outbox()
    with on_failure(store.close):
        return store, store.load()

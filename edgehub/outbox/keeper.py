"""What edgehub's module holds of the outbox: its opening, the change that is being written, and when what has arrived
may be forgotten. Lives on the module's thread.
"""

import logging
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

import pykka

from beehive import Actor, Clock, FrameError, Timer, decode
from edgehub.classes import Entry, classify
from edgehub.counters import LinkCounters
from edgehub.errors import OutboxError
from edgehub.outbox.ledger import Changes
from edgehub.outbox.store import Kept, OpenOutbox, OutboxStore
from edgehub.outbox.writer import Write, Writer
from edgehub.outgoing import Outgoing

_log = logging.getLogger(__name__)
A = TypeVar("A", bound=Actor)

AGAIN: Final = 10.0
"""Seconds after which what failed is tried again."""

LATER: Final = 1.0
"""Seconds between two flushes that only remove: a removal that is lost in a crash costs a repetition and no more."""

_NO_CLOCK: Final = 1_700_000_000_000
"""Milliseconds: a wall clock that says less is that of a board which has just booted without a battery."""


class Owner(Protocol):
    """The module."""

    @property
    def clock(self) -> Clock:
        """Time."""

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        """Call in the module's own turn."""

    def call_soon(self, function: Callable[[], None]) -> None:
        """Likewise, now."""

    def start_actor(self, actor_class: type[A], *args: Any) -> pykka.ActorRef[A]:
        """Start an actor that lives with the module."""


class OutboxKeeper:
    """See the module's docstring.

    Args:
        owner: the module.
        outgoing: what waits.
        open_outbox: opens the store; None: there is none, everything is in memory only.
        counters: of the link.
        ready: told when more may leave.
    """

    def __init__(
        self,
        owner: Owner,
        outgoing: Outgoing,
        open_outbox: OpenOutbox | None,
        counters: LinkCounters,
        ready: Callable[[], None],
    ) -> None:
        self._owner = owner
        self._outgoing = outgoing
        self._ledger = outgoing.ledger
        self._open_outbox = open_outbox
        self._counters = counters
        self._ready = ready
        self._writer: pykka.ActorRef[Writer] | None = None
        self._writing = False
        self._failed = False
        self._settling: Timer | None = None

    def start(self) -> None:
        """Open the store and let what is in it wait again; tried again later if that fails."""
        if self._open_outbox is None:
            return
        try:
            store = self._open_outbox()
            found = store.load()
        except OutboxError as error:
            self._fail(error)
            self._owner.after(AGAIN, self._start_again)
            return
        self._attach(store, found)

    def changed(self) -> None:
        """Have written what is to be written, unless that is under way; then it follows."""
        if self._writer is not None and not self._writing and self._ledger.unwritten:
            self._write(self._writer)

    def settle(self) -> None:
        """Let go of what has arrived long enough ago, now and when it is time for more."""
        now = self._owner.clock.monotonic()
        until = self._outgoing.settled(now)
        if self._settling is None and (until is not None or self._ledger.removals):
            self._settling = self._owner.after(max(LATER, (until or now) - now), self._settle_again)

    def stop(self) -> None:
        """The process ends: what is known to have arrived is gone, and the last change is written."""
        self._outgoing.trust()
        if self._writer is not None:
            self._write(self._writer)

    def _settle_again(self) -> None:
        self._settling = None
        self._outgoing.settled(self._owner.clock.monotonic())
        if self._writer is not None and not self._writing and self._ledger.removals:
            self._write(self._writer)
        self.settle()

    def _start_again(self) -> None:
        self.start()
        self.changed()
        self._ready()

    def _attach(self, store: OutboxStore, found: list[Kept]) -> None:
        entries = [entry for entry in map(self._entry, found) if entry is not None]
        self._outgoing.attach(entries, last=max((kept.serial for kept in found), default=0))
        self._counters.outbox_restored += len(entries)
        if entries:
            _log.info("%d messages of an earlier run wait for the cloud", len(entries))
        self._writer = self._owner.start_actor(Writer, store, self._to_wall, self._wrote)
        self.changed()

    def _entry(self, kept: Kept) -> Entry | None:
        """A message out of the store; None when it is none, which only a foreign hand can have done."""
        try:
            message = decode(kept.frame)
        except FrameError as error:
            _log.error("in the outbox is what is no message (%s); it is left out", error)
            return None
        clock = self._owner.clock
        age = max(0.0, clock.now() - kept.accepted / 1000) if kept.accepted > _NO_CLOCK else 0.0
        return Entry(message, kept.frame, classify(message), clock.monotonic() - age, kept.serial)

    def _to_wall(self, accepted: float) -> int:
        clock = self._owner.clock
        return int((clock.now() - (clock.monotonic() - accepted)) * 1000)

    def _write(self, writer: pykka.ActorRef[Writer]) -> None:
        self._writing = True
        writer.tell(Write(*self._ledger.take()))

    def _wrote(self, changes: Changes, error: OutboxError | None) -> None:
        """On the writer's thread."""
        self._owner.call_soon(lambda: self._go_on(changes, error))

    def _go_on(self, changes: Changes, error: OutboxError | None) -> None:
        self._writing = False
        if error is not None:
            self._ledger.refused(changes, self._outgoing.everything())
            self._fail(error)
            self._owner.after(AGAIN, self.changed)
        else:
            if self._failed:
                _log.warning("the outbox is written again")
            self._failed = False
            self._counters.outbox_writes += 1
            self._ledger.wrote(changes)
            self.changed()
        self._ready()

    def _fail(self, error: OutboxError) -> None:
        """Nothing waits for a disk: what cannot be kept leaves all the same, and is lost only with the process."""
        self._counters.outbox_failures += 1
        if not self._failed:
            _log.error("%s; messages for the cloud are only in memory meanwhile", error)
        self._failed = True

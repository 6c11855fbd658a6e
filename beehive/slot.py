"""A module's place in a hive: what stays when the module fails and is started again.

It owns the inbox, so that what waits survives a restart, and it is the one place where the hive, the supervisor and
the module meet. A module reports its failure as its very last act: when the supervisor hears of it, nothing of the
old life touches the inbox any more.
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec
import pykka

from beehive.delivery import Delivery, DropReason
from beehive.inbox import Inbox
from beehive.runtime import Future, Running

if TYPE_CHECKING:
    from beehive.hive import Hive
    from beehive.module import Module

_WORKING_STOP = 5.0
"""Seconds that a failed module's actors get to end before it is started again."""


class State(StrEnum):
    """Where a module is in its life."""

    ADDED = "added"
    STARTING = "starting"
    READY = "ready"
    NOT_READY = "not ready"
    FAILED = "failed"
    STOPPED = "stopped"


class Readiness(msgspec.Struct, frozen=True):
    """What a module says of itself."""

    state: State
    reason: str = ""


class Slot:
    """See the module's docstring.

    Args:
        hive: whose slot it is.
        make: the module's class; `args` and `kwargs` go to its constructor at each start.
    """

    def __init__(self, hive: "Hive", make: "type[Module]", args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._hive = hive
        self.make = make
        self.name = str(make.name)
        self._args = args
        self._kwargs = kwargs
        self.inbox = Inbox(hive.runtime, capacity=make.inbox_capacity, name=self.name, patience=hive.patience)
        self.running: Running[Module] | None = None
        """The present life, or the last one; set by the module before its loop begins."""
        self.readiness = Readiness(State.ADDED)
        self.restarts = 0
        self._start: Future[None] = hive.runtime.future()
        self._stopping = False
        self._stop_deadline = 0.0

    def start(self) -> Future[None]:
        """Make and start the module; the future is settled when `on_start` is through, or has failed."""
        self.readiness = Readiness(State.STARTING)
        start = self._start = self._hive.runtime.future()
        bindings = {"hive": self._hive, "slot": self, "handlers": self.make.handlers}
        try:
            self._hive.runtime.start(
                self.make, *self._args, name=self.name, inbox=self.inbox, bindings=bindings, **self._kwargs
            )
        except Exception as error:  # noqa: BLE001 - a constructor is a module's code like any other
            self.failed(error)
        return start

    def restart(self) -> None:
        """Start the module again after a failure, unless the hive is stopping."""
        if not self._stopping:
            self.restarts += 1
            self.start()

    def stop(self, deadline: float) -> bool:
        """Ask the module to stop and wait until `deadline` (monotonic seconds); False when it is still running."""
        self._stopping, self._stop_deadline = True, deadline
        clock = self._hive.runtime.clock
        if self.running is not None and not self.running.stop(deadline - clock.monotonic()):
            return False
        self.inbox.close(self._refuse)
        self.readiness = Readiness(State.STOPPED)
        return True

    def started(self, *, ready: bool) -> None:
        """Told by the module when `on_start` is through."""
        if self.readiness.state is State.STARTING:
            self.readiness = Readiness(State.READY if ready else State.NOT_READY, "" if ready else "starting")
        self._start.set()

    def finished(self) -> None:
        """Told by the module when its loop is through; of a life that nobody follows, what waits is buried."""
        if self._stopping:
            self.inbox.close(self._refuse)

    def failed(self, error: BaseException) -> None:
        """Told by the module, last of all, when it has stopped because of an exception."""
        self.readiness = Readiness(State.FAILED, f"{type(error).__name__}: {error}")
        if self._start.settled:
            self._hive.module_failed(self.name, error)
            return
        self._start.fail(error)
        if self.restarts:
            self._hive.module_failed(self.name, error)

    def set_ready(self) -> None:
        """Told by the module."""
        self.readiness = Readiness(State.READY)

    def set_not_ready(self, reason: str) -> None:
        """Told by the module."""
        self.readiness = Readiness(State.NOT_READY, reason)

    def stop_deadline(self) -> float:
        """Until when the module's actors may take to end, in monotonic seconds."""
        return self._stop_deadline if self._stopping else self._hive.runtime.clock.monotonic() + _WORKING_STOP

    def _refuse(self, item: Any) -> None:
        if isinstance(item, Delivery):
            self._hive.bury(self.name, item, DropReason.STOPPED)
        elif isinstance(item, pykka._envelope.Envelope) and item.reply_to is not None:
            item.reply_to.set_exception((None, pykka.ActorDeadError(f"{self.name} has stopped"), None))

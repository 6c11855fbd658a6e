"""`Slot`: a module's place in a hive, which stays when the module is started again."""

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec
import pykka

from beehive.delivery import Delivery, DropReason
from beehive.inbox import Inbox
from beehive.runtime import Future, RunningActor

if TYPE_CHECKING:
    from beehive.hive import Hive
    from beehive.module import Module

_WORKING_STOP = 5.0
"""Seconds that a failed module's actors have to end before the module is started again."""


class State(StrEnum):
    """The state of a module."""

    ADDED = "added"
    STARTING = "starting"
    READY = "ready"
    NOT_READY = "not ready"
    FAILED = "failed"
    STOPPED = "stopped"


class Readiness(msgspec.Struct, frozen=True):
    """The state of a module, with the reason if it is not ready."""

    state: State
    reason: str = ""


class Slot:
    """A module's place in a hive: its inbox, its readiness, and its present instance.

    The inbox survives a restart with the items that wait. Hive, supervisor and module meet here only. A module reports
    its failure as its last act, so when the supervisor restarts it, the failed instance no longer uses the inbox.

    Args:
        hive: the hive of the slot.
        make: the module's class; `args` and `kwargs` are passed to its constructor at each start.
    """

    def __init__(self, hive: "Hive", make: "type[Module]", args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._hive = hive
        self.make = make
        self.name = str(make.name)
        self._args = args
        self._kwargs = kwargs
        self.inbox = Inbox(hive.runtime, capacity=make.inbox_capacity, name=self.name, put_timeout=hive.put_timeout)
        self.running: RunningActor[Module] | None = None
        """The present instance, or the last one; set by the module before its loop begins."""
        self.readiness = Readiness(State.ADDED)
        self.restarts = 0
        self.progressed_at = -math.inf
        """Monotonic seconds of the last progress that the module has reported of its start."""
        self._start: Future[None] = hive.runtime.future()
        self._stopping = False
        self._stop_deadline = 0.0

    def start(self) -> Future[None]:
        """Make and start the module; the future is settled when `on_start` has returned, or fails with its error."""
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
        """Stop the module, waiting until `deadline` (monotonic seconds); return False if it is still running then."""
        self._stopping, self._stop_deadline = True, deadline
        clock = self._hive.runtime.clock
        if self.running is not None and not self.running.stop(deadline - clock.monotonic()):
            return False
        self.inbox.close(self._refuse)
        self.readiness = Readiness(State.STOPPED)
        return True

    def started(self, *, ready: bool) -> None:
        """Called by the module when `on_start` has returned."""
        if self.readiness.state is State.STARTING:
            self.readiness = Readiness(State.READY if ready else State.NOT_READY, "" if ready else "starting")
        self._start.set()

    def finished(self) -> None:
        """Called by the module when its loop has ended; in a stopping hive, the items that wait become dead letters."""
        if self._stopping:
            self.inbox.close(self._refuse)

    def failed(self, error: BaseException) -> None:
        """Called by the module, as its last act, when an exception has stopped it."""
        self.readiness = Readiness(State.FAILED, f"{type(error).__name__}: {error}")
        if self._start.settled:
            self._hive.module_failed(self.name, error)
            return
        self._start.fail(error)
        if self.restarts:
            self._hive.module_failed(self.name, error)

    def set_ready(self) -> None:
        """Called by the module when it is ready."""
        self.readiness = Readiness(State.READY)

    def set_not_ready(self, reason: str) -> None:
        """Called by the module when it is not ready."""
        self.readiness = Readiness(State.NOT_READY, reason)

    def report_progress(self) -> None:
        """Called by the module when a part of a long start is done."""
        self.progressed_at = self._hive.runtime.clock.monotonic()

    def stop_deadline(self) -> float:
        """Return the deadline for the module's actors to end, in monotonic seconds."""
        return self._stop_deadline if self._stopping else self._hive.runtime.clock.monotonic() + _WORKING_STOP

    def _refuse(self, item: Any) -> None:
        if isinstance(item, Delivery):
            self._hive.dead_letter(self.name, item, DropReason.STOPPED)
        elif isinstance(item, pykka._envelope.Envelope) and item.reply_to is not None:
            item.reply_to.set_exception((None, pykka.ActorDeadError(f"{self.name} has stopped"), None))

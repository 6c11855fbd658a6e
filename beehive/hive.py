"""The registry and router of one process's modules: an ordinary object, never a global, so that many fit in one
process.

Modules are added in the order in which they shall start; they stop in reverse. Who sends never holds a reference to
who receives: a module can be started again, replaced by a test, or be absent.
"""

import logging
import threading
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import msgspec
import pykka

from beehive.dead_letters import DeadLetter, DeadLetters
from beehive.delivery import Continuation, Delivery, DropReason, Kind, Outcome, Record, Tap, Way
from beehive.errors import (
    BeehiveError,
    InboxFullError,
    NotStartedError,
    StartError,
    StopError,
    UndeliverableError,
)
from beehive.inbox import Inbox
from beehive.message import Message
from beehive.module import Module
from beehive.requests import Waiters
from beehive.runtime import Future, Running, Runtime
from beehive.supervisor import Failed, Supervisor

_log = logging.getLogger(__name__)

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
    """A module's place in the hive: what stays when the module is started again."""

    def __init__(self, hive: "Hive", make: type[Module], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._hive = hive
        self.make = make
        self.name = str(make.name)
        self._args = args
        self._kwargs = kwargs
        self.inbox = Inbox(hive.runtime, name=self.name, patience=hive.patience)
        self.ref: pykka.ActorRef[Module] | None = None
        self.readiness = Readiness(State.ADDED)
        self.restarts = 0
        self._start: Future[None] = hive.runtime.future()
        self._ended: Future[None] | None = None
        self._stopping = False
        self._stop_deadline = 0.0

    def start(self) -> Future[None]:
        """Make and start the module; the future is settled when `on_start` is through, or has failed."""
        self.readiness = Readiness(State.STARTING)
        self._start = self._hive.runtime.future()
        bindings = {"hive": self._hive, "slot": self, "handlers": self.make.handlers}
        start = self._start
        try:
            running = self._hive.runtime.start(
                self.make, *self._args, name=self.name, inbox=self.inbox, bindings=bindings, **self._kwargs
            )
        except Exception as error:  # noqa: BLE001 - a constructor is a module's code like any other
            self.failed(error)
        else:
            self.ref, self._ended = running
        return start

    def restart(self) -> None:
        """Start the module again after a failure, unless the hive is stopping."""
        if not self._stopping:
            self.restarts += 1
            self.start()

    def stop(self, deadline: float) -> bool:
        """Ask the module to stop and wait until `deadline` (monotonic seconds); False when it is still running."""
        self._stopping, self._stop_deadline = True, deadline
        if self.ref is None or self._ended is None:
            self.flush()
            return True
        if not self.ref.actor_stopped.is_set():
            self.inbox.put_urgent(pykka._envelope.Envelope(pykka.messages._ActorStop()))
        try:
            self._ended.get(timeout=max(0.0, deadline - self._hive.runtime.clock.monotonic()))
        except pykka.Timeout:
            self.ref.actor_stopped.set()
            return False
        self.flush()
        self.readiness = Readiness(State.STOPPED)
        return True

    def started(self, *, ready: bool) -> None:
        """Told by the module when `on_start` is through."""
        if self.readiness.state is State.STARTING:
            self.readiness = Readiness(State.READY if ready else State.NOT_READY, "" if ready else "starting")
        self._start.set()

    def failed(self, error: BaseException) -> None:
        """Told by the module when it has stopped because of an exception."""
        self.readiness = Readiness(State.FAILED, f"{type(error).__name__}: {error}")
        if self._start.settled:
            self._hive.module_failed(self.name, error)
        else:
            self._start.fail(error)
            if self.restarts:
                self._hive.module_failed(self.name, error)

    def child_failed(self, module: pykka.ActorRef[Any], error: BaseException) -> None:
        """Told by an actor of the module: the module shares its fate."""

        def fail() -> None:
            raise error

        if self.ref is module and not self._stopping:
            self.inbox.put_urgent(Continuation(fail))

    def set_ready(self) -> None:
        """Told by the module."""
        self.readiness = Readiness(State.READY)

    def set_not_ready(self, reason: str) -> None:
        """Told by the module."""
        self.readiness = Readiness(State.NOT_READY, reason)

    def stop_deadline(self) -> float:
        """Until when the module's actors may take to end, in monotonic seconds."""
        return self._stop_deadline if self._stopping else self._hive.runtime.clock.monotonic() + _WORKING_STOP

    def keeps_inbox(self) -> bool:
        """Whether what waits is for the module's next life."""
        return not self._stopping

    def flush(self) -> None:
        """Bury what waits; the module will not come back."""
        while not self.inbox.empty():
            item = self.inbox.get()
            if isinstance(item, Delivery):
                self._hive.bury(self.name, item, DropReason.STOPPED)
            elif isinstance(item, pykka._envelope.Envelope) and item.reply_to is not None:
                item.reply_to.set_exception((None, pykka.ActorDeadError(f"{self.name} has stopped"), None))


class Hive:
    """See the module's docstring.

    Args:
        runtime: what its modules run on.
        taps: observers of every delivery; without any, observing costs nothing.
        patience: seconds that a sender waits for room in a full inbox.
        outside: takes messages for modules and groups that are not here; otherwise they are dead letters.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        taps: tuple[Tap, ...] = (),
        patience: float = 5.0,
        outside: Callable[[str, Message, Way], bool] | None = None,
    ) -> None:
        self.runtime = runtime
        self.clock = runtime.clock
        self.taps: list[Tap] = list(taps)
        self.patience = patience
        self.dead_letters = DeadLetters()
        self.waiters = Waiters(runtime.clock)
        self._outside = outside
        self._slots: dict[str, Slot] = {}
        self._groups: dict[str, list[str]] = {}
        self._supervisor: Running[Supervisor] | None = None
        self._failures = threading.Lock()

    def add(self, module: type[Module], *args: Any, **kwargs: Any) -> None:
        """Add a module; `args` and `kwargs` go to its constructor at each start.

        Raises:
            StartError: there is one of that name already.
        """
        if module.name in self._slots:
            raise StartError("cannot add a module", module.name, "the name is taken; names are unique in a hive")
        self._slots[module.name] = Slot(self, module, args, kwargs)
        if module.group:
            self._groups.setdefault(module.group, []).append(module.name)

    def start(self, seconds: float = 30.0) -> None:
        """Start the modules in the order in which they were added, each when the one before has started.

        Raises:
            StartError: one of them failed, or was not through in time; those started before it are stopped again.
        """
        self._supervisor = self.runtime.start(Supervisor, self._restart, name="supervisor")
        deadline = self.clock.monotonic() + seconds
        for name, slot in self._slots.items():
            try:
                slot.start().get(timeout=max(0.0, deadline - self.clock.monotonic()))
            except pykka.Timeout as error:
                self.stop()
                hint = "see its log; a module must not wait for others while it starts"
                raise StartError(f"module not started within {seconds:g} s", name, hint) from error
            except Exception as error:
                self.stop()
                raise StartError(f"cannot start module {name}", str(error)) from error

    def stop(self, seconds: float = 10.0) -> None:
        """Stop the modules in reverse order, each when the one after it has ended.

        Raises:
            StopError: some were still running at the deadline; they end with the message they are at.
        """
        deadline = self.clock.monotonic() + seconds
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            supervisor.ref.stop(block=False)
            supervisor.ended.get(timeout=seconds)
        late = [name for name, slot in reversed(self._slots.items()) if not slot.stop(deadline)]
        if late:
            raise StopError(f"still running after {seconds:g} s", ", ".join(late), "a thread dump shows where")

    def readiness(self) -> dict[str, Readiness]:
        """What every module says of itself, by name."""
        return {name: slot.readiness for name, slot in self._slots.items()}

    def depths(self) -> dict[str, int]:
        """How many items wait in each module's inbox."""
        return {name: slot.inbox.depth() for name, slot in self._slots.items()}

    def restarts(self) -> dict[str, int]:
        """How often each module was started again after a failure."""
        return {name: slot.restarts for name, slot in self._slots.items()}

    def members(self, group: str) -> list[str]:
        """Names of the modules of a group, in the order of their start."""
        return list(self._groups.get(group, ()))

    def send(self, destination: str, message: Message) -> None:
        """Put a message into a module's inbox; what cannot be delivered is a dead letter."""
        self._deliver(destination, message, Way.SEND)

    def broadcast(self, group: str, message: Message) -> None:
        """Put a message into the inbox of every module of a group."""
        self._broadcast(group, message, Way.BROADCAST)

    def request(self, destination: str, message: Message, seconds: float) -> Future[Message]:
        """Send and get a future of the answer (SendSync); it fails when `seconds` have passed.

        The future raises `RequestTimeoutError` or `UndeliverableError`. Only ask downwards: a module's own thread must
        not wait for it, see `Module.request`.
        """
        future: Future[Message] = self.runtime.future()
        self.request_then(destination, message, seconds, lambda result: _settle(future, result))
        return future

    def request_then(self, destination: str, message: Message, seconds: float, done: Callable[[Any], None]) -> None:
        """Send, and call `done` once with the answer or with the error; on whatever thread it comes."""
        message = message.with_header(sync=True)
        self.waiters.register(message, seconds, done)
        if not self._deliver(destination, message, Way.REQUEST):
            self._give_up(destination, message)

    def broadcast_request(self, group: str, message: Message, seconds: float) -> Future[list[Message]]:
        """Send to every module of a group and get a future of all their answers.

        It raises `RequestTimeoutError`, with the answers that did come, when one is missing at the deadline.
        """
        future: Future[list[Message]] = self.runtime.future()
        message = message.with_header(sync=True)
        expected = len(self._groups.get(group, ()))
        self.waiters.register(message, seconds, lambda result: _settle(future, result), max(1, expected))
        if not self._broadcast(group, message, Way.REQUEST):
            self._give_up(group, message)
        return future

    def respond(self, message: Message) -> None:
        """Give an answer to whoever waits for it; one that nobody waits for is counted and dropped."""
        reason = self.waiters.answer(message)
        if self.taps:
            outcome = Outcome.HANDLED if reason is None else Outcome.DROPPED
            self._tell_taps(Record(self.clock.now(), "", message, Way.RESPONSE, outcome, reason, 0, 0.0, 0.0))
        if reason is not None:
            _log.debug("%s: %s %s", reason, message.route.resource, message.parent_id)

    def report(
        self, module: str, delivery: Delivery, outcome: Outcome, reason: DropReason | None, begin: float | None = None
    ) -> None:
        """Tell the taps of a delivery that has come to an end; `begin` is when its handler began."""
        if not self.taps:
            return
        end = self.clock.monotonic()
        begin = end if begin is None else begin
        waited = max(0.0, begin - delivery.enqueued) if delivery.enqueued else 0.0
        message, way, depth = delivery.message, delivery.way, delivery.depth
        handled = end - begin
        self._tell_taps(Record(self.clock.now(), module, message, way, outcome, reason, depth, waited, handled))

    def bury(self, module: str, delivery: Delivery, reason: DropReason, detail: str = "") -> None:
        """Make a delivery a dead letter."""
        message = delivery.message
        self.dead_letters.add(DeadLetter(self.clock.now(), module, message, reason, detail))
        self.report(module, delivery, Outcome.DEAD, reason)
        _log.warning("dead letter for %s: %s: %s %s %s %s", module, reason, message.route.operation,
                     message.route.resource, message.id, detail)  # fmt: skip

    def module_failed(self, name: str, error: BaseException) -> None:
        """Told by a slot; the supervisor takes it from here."""
        supervisor = self._supervisor
        if supervisor is not None:
            supervisor.ref.tell(Failed(name, error))

    def slot(self, name: str) -> Slot:
        """A module's slot, for tests and for observers.

        Raises:
            NotStartedError: there is no such module.
        """
        try:
            return self._slots[name]
        except KeyError:
            raise NotStartedError("no such module", name, f"this hive has {', '.join(self._slots)}") from None

    def _restart(self, name: str) -> None:
        self._slots[name].restart()

    def _broadcast(self, group: str, message: Message, way: Way) -> int:
        names = self._groups.get(group)
        if not names:
            if self._outside is None or not self._outside(group, message, way):
                self.bury(group, Delivery(message, _nobody, way), DropReason.NO_GROUP)
                return 0
            return 1
        return sum([self._deliver(name, message, way) for name in names])

    def _deliver(self, destination: str, message: Message, way: Way) -> bool:
        slot = self._slots.get(destination)
        if slot is None:
            return self._deliver_outside(destination, message, way)
        handler = slot.make.handlers.find(message)
        if handler is None:
            self.bury(destination, Delivery(message, _nobody, way), DropReason.NO_HANDLER)
            return False
        delivery = Delivery(message, handler.call, way)
        inbox = slot.inbox
        if self.taps:
            delivery.enqueued = self.clock.monotonic()
            delivery.depth = inbox.depth()
        if handler.kind is Kind.COMMAND or way is Way.REQUEST:
            return self._put_command(destination, inbox, delivery)
        return self._put_lossy(destination, inbox, delivery, handler.kind)

    def _put_command(self, destination: str, inbox: Inbox, delivery: Delivery) -> bool:
        try:
            inbox.put(delivery)
        except InboxFullError:
            self.bury(destination, delivery, DropReason.INBOX_FULL)
            return False
        return True

    def _put_lossy(self, destination: str, inbox: Inbox, delivery: Delivery, kind: Kind) -> bool:
        if kind is Kind.TELEMETRY:
            oldest = inbox.put_telemetry(delivery)
            if oldest is not None:
                self.report(destination, oldest, Outcome.DROPPED, DropReason.OLDEST_TELEMETRY)
            return True
        route = delivery.message.route
        older = inbox.put_state((route.resource, route.operation, route.source), delivery)
        if older is not None:
            self.report(destination, older, Outcome.COALESCED, DropReason.SUPERSEDED)
        return True

    def _deliver_outside(self, destination: str, message: Message, way: Way) -> bool:
        if self._outside is not None and self._outside(destination, message, way):
            return True
        self.bury(destination, Delivery(message, _nobody, way), DropReason.NO_MODULE)
        return False

    def _give_up(self, destination: str, message: Message) -> None:
        hint = "see the dead letters for the reason"
        error = UndeliverableError(f"cannot deliver a request to {destination}", message.id, hint, retryable=True)
        self.waiters.cancel(message.id, error)

    def _tell_taps(self, record: Record) -> None:
        for tap in self.taps:
            tap.delivered(record)


def _settle(future: Future[Any], result: Any) -> None:
    if isinstance(result, BeehiveError):
        future.fail(result)
    else:
        future.set(result)


def _nobody(_module: Any, _message: Message) -> None:
    raise NotStartedError("a delivery without a handler was handled")

"""`Hive`: the registry and router of the modules of one process."""

import contextlib
import logging
from collections.abc import Callable
from typing import Any

import pykka

from beehive.dead_letters import DeadLetter, DeadLetters
from beehive.delivery import (
    Delivery,
    DeliveryMode,
    DeliveryRecord,
    DropReason,
    ModuleFailed,
    Outcome,
    OverflowPolicy,
    Tap,
)
from beehive.errors import InboxFullError, NotStartedError, StartError, StopError
from beehive.inbox import Inbox
from beehive.message import Message
from beehive.module import Module
from beehive.observed import Observed
from beehive.printable import clipped
from beehive.requests import PendingRequests, settle, undeliverable
from beehive.runtime import Future, RunningActor, Runtime
from beehive.slot import Readiness, Slot
from beehive.supervisor import ModuleDown, Supervisor
from beehive.trace_context import current_context, own_context

_log = logging.getLogger(__name__)

_START_SECONDS = 90.0
"""As systemd waits for a unit: a machine that is busy, or pauses, is slow, and no module hangs by that."""
_STOP_SECONDS = 10.0

_DETAIL = 1024
"""Characters of an exception's text that a dead letter keeps: the text may quote the message."""

_SEND, _REQUEST, _BROADCAST = DeliveryMode.SEND, DeliveryMode.REQUEST, DeliveryMode.BROADCAST
_COMMAND = OverflowPolicy.COMMAND
"""Looked up once: a member of an enum costs as much as a call."""


class Hive(Observed):
    """The registry and router of the modules of one process.

        hive = Hive(Threads())
        hive.add(MetaManager, store)
        hive.add(EdgeHub, settings)
        hive.start()

    Modules start in the order that they were added, and stop in reverse. A sender names its destination and holds
    no reference to it, so a module can be started again, replaced by a test, or be absent. A hive is an ordinary
    object, never a global: one process may have several.

    Args:
        runtime: runs the modules.
        taps: observers of every delivery; without taps, observing costs nothing.
        put_timeout: seconds that a sender waits for room in a full inbox.
        outside: takes messages for modules and groups that the hive does not have, and returns whether it did;
            otherwise they become dead letters.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        taps: tuple[Tap, ...] = (),
        put_timeout: float = 5.0,
        outside: Callable[[str, Message, DeliveryMode], bool] | None = None,
    ) -> None:
        super().__init__(runtime.clock.monotonic, taps)
        self.runtime = runtime
        self.clock = runtime.clock
        self.put_timeout = put_timeout
        self.dead_letters = DeadLetters()
        self.pending_requests = PendingRequests(runtime.clock)
        self._outside = outside
        self._slots: dict[str, Slot] = {}
        self._groups: dict[str, list[str]] = {}
        self._supervisor: RunningActor[Supervisor] | None = None
        self._began = self._stopping = False

    def add(self, module: type[Module], *args: Any, **kwargs: Any) -> None:
        """Add a module; `args` and `kwargs` go to its constructor at each start.

        Raises:
            StartError: the hive has a module of that name, or has been started.
        """
        if self._began:
            raise StartError("cannot add a module", module.name, "add all modules before the hive is started")
        if module.name in self._slots:
            raise StartError("cannot add a module", module.name, "the name is taken; names are unique in a hive")
        self._slots[module.name] = Slot(self, module, args, kwargs)
        if module.group:
            self._groups.setdefault(module.group, []).append(module.name)

    def start(self, seconds: float = _START_SECONDS) -> None:
        """Start the modules in the order that they were added, each after the one before has started.

        Args:
            seconds: time for that; a module that reports progress has as long again, see `Module.announce_progress`.

        Raises:
            StartError: a module failed, or did not start in time; the modules before it are stopped again.
        """
        if self._began:
            raise StartError("cannot start a hive", hint="it was started before; make a new one")
        self._began = True
        name, deadline = "supervisor", self.clock.monotonic() + seconds
        try:
            self._supervisor = self.runtime.start(Supervisor, self._restart, name=name)
            for slot in self._slots.values():
                name = slot.name
                deadline = self._start(slot, seconds, deadline)
        except pykka.Timeout as error:
            self._abandon(seconds)
            hint = "see its log; a module must not wait for others while it starts"
            raise StartError(f"module not started within {seconds:g} s", name, hint) from error
        except (Exception, SystemExit) as error:
            self._abandon(seconds)
            raise StartError(f"cannot start module {name}", str(error)) from error
        except KeyboardInterrupt:
            self._abandon(seconds)
            raise

    def stop(self, seconds: float = _STOP_SECONDS) -> None:
        """Stop the modules in reverse order, each after the one behind it has ended.

        A module that hangs takes at most half of the time; the others share the rest, so that they still stop.

        Raises:
            StopError: modules were still running at their deadline; they end after the message that they handle.
        """
        self._stopping = True
        deadline = self.clock.monotonic() + seconds
        supervisor, self._supervisor = self._supervisor, None
        share = seconds / 2 / (len(self._slots) + 1)
        late = []
        if supervisor is not None and not supervisor.stop(seconds - share * len(self._slots)):
            late.append("supervisor")
        for left, (name, slot) in zip(range(len(self._slots))[::-1], reversed(self._slots.items()), strict=True):
            if not slot.stop(deadline - share * left):
                late.append(name)
        if late:
            raise StopError(f"still running after {seconds:g} s", ", ".join(late), "a thread dump shows where")

    def readiness(self) -> dict[str, Readiness]:
        """Return the readiness of every module, by name."""
        return {name: slot.readiness for name, slot in self._slots.items()}

    def depths(self) -> dict[str, int]:
        """Return the number of items in each module's inbox, by name."""
        return {name: slot.inbox.depth() for name, slot in self._slots.items()}

    def restarts(self) -> dict[str, int]:
        """Return how often each module was started again after a failure, by name."""
        return {name: slot.restarts for name, slot in self._slots.items()}

    def has(self, name: str) -> bool:
        """Return whether a message to a module of this name reaches one, here or, for a test or a replay, outside."""
        return name in self._slots or self._outside is not None

    def members(self, group: str) -> list[str]:
        """Return the names of the modules of a group, in the order of their start."""
        return list(self._groups.get(group, ()))

    def send(self, destination: str, message: Message, *, waits: bool = True) -> None:
        """Put a message into a module's inbox; an undeliverable message becomes a dead letter.

        A thread that others depend on, as a connection's or the clock's, passes `waits=False`, see `broadcast`.
        """
        self._deliver(destination, message, _SEND, waits=waits)

    def broadcast(self, group: str, message: Message) -> None:
        """Put a message into the inbox of every module of a group.

        Never waits: a member without room receives it when it has room, up to the put timeout (KubeEdge's SendToGroup).
        """
        names = self._groups.get(group)
        if names is not None:
            for name in names:
                self._deliver(name, message, _BROADCAST, waits=False)
        elif self._outside is None or not self._outside(group, message, _BROADCAST):
            self.dead_letter(group, Delivery(message, _no_handler, _BROADCAST), DropReason.NO_GROUP)

    def request(self, destination: str, message: Message, seconds: float) -> Future[Message]:
        """Send a request and return the future of its answer (KubeEdge's SendSync).

        The future raises `RequestTimeoutError` after `seconds`, or `UndeliverableError`. A module's own thread must not
        wait for it, see `Module.request`.
        """
        future: Future[Message] = self.runtime.future()
        self.request_then(destination, message, seconds, lambda result: settle(future, result))
        return future

    def request_then(
        self, destination: str, message: Message, seconds: float, done: Callable[[Any], None], *, waits: bool = True
    ) -> None:
        """Send a request, and call `done` once with the answer or the error, on the answering or the clock's thread.
        With `waits=False` it waits for room as in `broadcast`.
        """
        if not message.header.sync:
            message = message.as_request()
        if self.pending_requests.register(message, seconds, done, asked=(destination,)):
            self._deliver(destination, message, _REQUEST, waits=waits)

    def respond(self, message: Message, by: str | None = None) -> bool:
        """Pass an answer to the request that waits for it; return False, and count and drop it, without one.

        Args:
            message: the answer.
            by: the answering module; the answer of a module that was not asked becomes a dead letter. None answers in
                the name of the module that was asked.
        """
        reason = self._respond_observed(message, by) if self.taps else self.pending_requests.answer(message, by)
        if reason is DropReason.FOREIGN_ANSWER:
            self.dead_letters.add(DeadLetter(self.clock.now(), by or "", message, reason))
        if reason is not None:
            _log.debug("%s: %s %s", reason, message.route.resource, message.parent_id)
        return reason is None

    def dead_letter(self, module: str, delivery: Delivery, reason: DropReason, detail: str = "") -> None:
        """Make a delivery a dead letter, at the hive's end without a warning. A request gets `UndeliverableError`; of
        another message that has found no room, the module's `turn_away` may answer the sender.
        """
        message = delivery.message
        self.dead_letters.add(DeadLetter(self.clock.now(), module, message, reason, detail[:_DETAIL]))
        self.report(module, delivery, Outcome.DEAD, reason)
        if message.header.sync:
            self.pending_requests.cancel(message.id, undeliverable(module, message, reason), module)
        elif reason is DropReason.INBOX_FULL:
            self._slots[module].make.turn_away(self, message)
        level = logging.DEBUG if self._stopping and reason is DropReason.STOPPED else logging.WARNING
        route = message.route
        _log.log(level, "dead letter for %s: %s: %s %s %s %s", clipped(module), reason, clipped(route.operation),
                 clipped(route.resource), clipped(message.id), clipped(detail))  # fmt: skip

    def module_failed(self, name: str, error: BaseException) -> None:
        """Report the failure of a module to the watchers and to the supervisor; called by its slot."""
        self.notify_watchers(ModuleFailed(self.clock.monotonic(), name, error))
        supervisor = self._supervisor
        if supervisor is not None:
            with contextlib.suppress(pykka.ActorDeadError):
                supervisor.ref.tell(ModuleDown(name, error))

    def slot(self, name: str) -> Slot:
        """Return a module's slot, for tests and observers.

        Raises:
            NotStartedError: the hive has no such module.
        """
        try:
            return self._slots[name]
        except KeyError:
            raise NotStartedError("no such module", name, f"this hive has {', '.join(self._slots)}") from None

    def _start(self, slot: Slot, seconds: float, deadline: float) -> float:
        """Start a module, and return the deadline for those after it.

        Raises:
            pykka.Timeout: it has not started by the deadline, nor `seconds` after its last progress.
        """
        start = slot.start()
        while True:
            try:
                start.get(timeout=max(0.0, deadline - self.clock.monotonic()))
            except pykka.Timeout:
                if slot.progressed_at + seconds <= deadline:
                    raise
                deadline = slot.progressed_at + seconds
            else:
                return max(deadline, slot.progressed_at + seconds)

    def _restart(self, name: str) -> None:
        self._slots[name].restart()

    def _deliver(self, destination: str, message: Message, mode: DeliveryMode, *, waits: bool = True) -> None:
        """Choose the handler and put the message into the inbox, or make it a dead letter.

        Without room, the calling thread waits (`waits`), or the message waits outside the inbox.
        """
        slot = self._slots.get(destination)
        if slot is None:
            if self._outside is None or not self._outside(destination, message, mode):
                self.dead_letter(destination, Delivery(message, _no_handler, mode), DropReason.NO_MODULE)
            return
        route, handlers = message.route, slot.make.handlers
        key = (handlers.type_of(message), route.operation, route.source)
        handler = handlers.known.get(key) or handlers.find(message)
        if handler is None:
            self.dead_letter(destination, Delivery(message, _no_handler, mode), DropReason.NO_HANDLER)
            return
        inbox = slot.inbox
        if self.taps:
            context = current_context()
            span = self.next_span()
            delivery = Delivery(
                message, handler.call, mode, 0, inbox.depth(), self._monotonic(),
                context.actor, span, context.span, context.trace or span,
            )  # fmt: skip
        else:
            delivery = Delivery(message, handler.call, mode)
        give_up = None if waits else lambda late: self.dead_letter(destination, late, DropReason.INBOX_FULL)
        try:
            if handler.overflow is not _COMMAND and mode is not _REQUEST:
                self._put_lossy(destination, inbox, delivery, handler.overflow, give_up)
            elif give_up is None:
                inbox.put(delivery)
            else:
                inbox.put_deferred(delivery, give_up)
        except InboxFullError:
            self.dead_letter(destination, delivery, DropReason.INBOX_FULL)

    def _put_lossy(
        self,
        destination: str,
        inbox: Inbox,
        delivery: Delivery,
        overflow: OverflowPolicy,
        give_up: Callable[[Delivery], None] | None,
    ) -> None:
        if overflow is OverflowPolicy.TELEMETRY:
            oldest = inbox.put_telemetry(delivery)
            if oldest is not None:
                self.report(destination, oldest, Outcome.DROPPED, DropReason.OLDEST_TELEMETRY)
            return
        route = delivery.message.route
        older = inbox.put_state((route.resource, route.operation, route.source), delivery, give_up)
        if older is not None:
            self.report(destination, older, Outcome.COALESCED, DropReason.SUPERSEDED)

    def _abandon(self, seconds: float) -> None:
        """Stop the modules after a failed start; an error of the stop is only logged, because the caller gets the error
        of the start.
        """
        try:
            self.stop(min(seconds, _STOP_SECONDS))
        except StopError:
            _log.exception("modules left running after a failed start")

    def _respond_observed(self, message: Message, by: str | None) -> DropReason | None:
        """Pass an answer on in a span of its own, and report it to the taps. The rest of the request has this cause."""
        requester = self.pending_requests.requester(message.header.parent_msg_id)
        context = own_context()
        cause, before = context.span, context.trace
        span = context.span = self.next_span()
        trace = context.trace = before or span
        reason = self.pending_requests.answer(message, by)
        context.span, context.trace = cause, before
        outcome = Outcome.HANDLED if reason is None else Outcome.DROPPED
        now, mode = self._monotonic(), DeliveryMode.RESPONSE
        sender = context.actor
        self._call_taps(
            DeliveryRecord(now, requester, message, mode, outcome, reason, 0, 0.0, 0.0, sender, span, cause, trace)
        )
        return reason


def _no_handler(_module: Any, _message: Message) -> None:
    raise NotStartedError("a delivery without a handler was handled")

"""The registry and router of one process's modules: an ordinary object, never a global, so that many fit in one
process.

Modules are added in the order in which they shall start; they stop in reverse. Who sends never holds a reference to
who receives: a module can be started again, replaced by a test, or be absent.
"""

import contextlib
import itertools
import logging
from collections.abc import Callable
from typing import Any

import pykka

from beehive.causes import current, own
from beehive.dead_letters import DeadLetter, DeadLetters
from beehive.delivery import Delivery, DropReason, Kind, ModuleFailed, Outcome, Record, Tap, Way
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
from beehive.slot import Readiness, Slot
from beehive.supervisor import Failed, Supervisor
from beehive.text import clipped

_log = logging.getLogger(__name__)

_STOP_SECONDS = 10.0

_DETAIL = 1024
"""Characters of an exception's text that a dead letter keeps: it may quote what was sent."""

_SEND, _REQUEST, _COMMAND, _HANDLED = Way.SEND, Way.REQUEST, Kind.COMMAND, Outcome.HANDLED
"""Looked up once: a member of an enum costs as much as a call."""


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
        self._monotonic = runtime.clock.monotonic
        self.taps: list[Tap] = list(taps)
        self.watchers: list[Callable[[Any], None]] = []
        """Told of what else happens, as taps are of deliveries: `beehive.delivery.Happened`, and what a module tells of
        itself. Without any, timers are not observed."""
        self.next_span: Callable[[], int] = itertools.count(1).__next__
        """Draws the number of something that happens, see `beehive.causes`."""
        self.patience = patience
        self.dead_letters = DeadLetters()
        self.waiters = Waiters(runtime.clock)
        self._outside = outside
        self._slots: dict[str, Slot] = {}
        self._groups: dict[str, list[str]] = {}
        self._supervisor: Running[Supervisor] | None = None
        self._began = False

    def add(self, module: type[Module], *args: Any, **kwargs: Any) -> None:
        """Add a module; `args` and `kwargs` go to its constructor at each start.

        Raises:
            StartError: there is one of that name already, or the hive has been started.
        """
        if self._began:
            raise StartError("cannot add a module", module.name, "add all modules before the hive is started")
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
        if self._began:
            raise StartError("cannot start a hive", hint="it was started before; make a new one")
        self._began = True
        self._supervisor = self.runtime.start(Supervisor, self._restart, name="supervisor")
        deadline = self.clock.monotonic() + seconds
        for name, slot in self._slots.items():
            try:
                slot.start().get(timeout=max(0.0, deadline - self.clock.monotonic()))
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
        """Stop the modules in reverse order, each when the one after it has ended.

        One that hangs takes at most half of the time; the others share what is left, so that they still stop.

        Raises:
            StopError: some were still running at their deadline; they end with the message they are at.
        """
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
        self._deliver(destination, message, _SEND)

    def broadcast(self, group: str, message: Message) -> None:
        """Put a message into the inbox of every module of a group.

        Never waits: a member without room gets it when it has some, up to the patience (KubeEdge's SendToGroup).
        """
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
        message = message.as_request()
        if self.waiters.register(message, seconds, done, asked=(destination,)):
            self._deliver(destination, message, _REQUEST)

    def broadcast_request(self, group: str, message: Message, seconds: float) -> Future[list[Message]]:
        """Send to every module of a group and get a future of all their answers.

        It raises `RequestTimeoutError`, with the answers that did come, when one is missing at the deadline.
        """
        future: Future[list[Message]] = self.runtime.future()
        message = message.as_request()
        members = self._groups.get(group, ())
        done, asked = (lambda result: _settle(future, result)), (group, *members)
        if self.waiters.register(message, seconds, done, max(1, len(members)), asked):
            reached = self._broadcast(group, message, Way.REQUEST)
            if not reached:
                self.waiters.cancel(message.id, _undeliverable(group, message))
        return future

    def respond(self, message: Message, by: str | None = None) -> bool:
        """Give an answer to whoever waits for it; one that nobody waits for is counted, dropped, and False.

        Args:
            message: the answer.
            by: the module that answers; of one that was not asked, an answer is a dead letter. None: in the name of
                whichever was asked.
        """
        reason = self._respond_observed(message, by) if self.taps else self.waiters.answer(message, by)
        if reason is DropReason.FOREIGN_ANSWER:
            self.dead_letters.add(DeadLetter(self.clock.now(), by or "", message, reason))
        if reason is not None:
            _log.debug("%s: %s %s", reason, message.route.resource, message.parent_id)
        return reason is None

    def handled(self, module: str, delivery: Delivery, begin: float) -> None:
        """Tell the taps of a delivery that was handled; `begin` is when its handler began, by the monotonic clock."""
        waited = begin - delivery.enqueued if delivery.enqueued >= 0 else 0.0
        seconds = self._monotonic() - begin
        message, way, depth = delivery.message, delivery.way, delivery.depth
        record = Record(
            begin + seconds, module, message, way, _HANDLED, None, depth, waited, seconds,
            delivery.sender, delivery.span, delivery.cause, delivery.trace,
        )  # fmt: skip
        for tap in self.taps:
            try:
                tap.delivered(record)
            except Exception:  # noqa: BLE001 - an observer must not fail whom it observes
                _tap_failed(tap)

    def report(self, module: str, delivery: Delivery, outcome: Outcome, reason: DropReason | None) -> None:
        """Tell the taps of a delivery that has come to an end without being handled."""
        if self.taps:
            now = self._monotonic()
            waited = now - delivery.enqueued if delivery.enqueued >= 0 else 0.0
            message, way, depth = delivery.message, delivery.way, delivery.depth
            if not delivery.span:
                self._trace(delivery)
            record = Record(
                now, module, message, way, outcome, reason, depth, waited, 0.0,
                delivery.sender, delivery.span, delivery.cause, delivery.trace,
            )  # fmt: skip
            self._tell_taps(record)

    def _trace(self, delivery: Delivery) -> None:
        """Give a delivery that never reached an inbox its place among the causes."""
        turn = current()
        delivery.span = span = self.next_span()
        delivery.sender, delivery.cause, delivery.trace = turn.actor, turn.span, turn.trace or span

    def bury(self, module: str, delivery: Delivery, reason: DropReason, detail: str = "") -> None:
        """Make a delivery a dead letter. Of a request, whoever waits for the answer is told at once."""
        message = delivery.message
        self.dead_letters.add(DeadLetter(self.clock.now(), module, message, reason, detail[:_DETAIL]))
        self.report(module, delivery, Outcome.DEAD, reason)
        if delivery.way is Way.REQUEST:
            self.waiters.undeliverable(message.id, _undeliverable(module, message, reason))
        _log.warning("dead letter for %s: %s: %s %s %s %s", clipped(module), reason, clipped(message.route.operation),
                     clipped(message.route.resource), clipped(message.id), clipped(detail))  # fmt: skip

    def module_failed(self, name: str, error: BaseException) -> None:
        """Told by a slot; the supervisor takes it from here."""
        self.tell_watchers(ModuleFailed(self.clock.monotonic(), name, error))
        supervisor = self._supervisor
        if supervisor is not None:
            with contextlib.suppress(pykka.ActorDeadError):
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
        return sum([self._deliver(name, message, way, waits=False) for name in names])

    def _deliver(self, destination: str, message: Message, way: Way, *, waits: bool = True) -> bool:
        """Choose the handler and put the message into the inbox; `waits` for room in this thread, or lets it wait."""
        slot = self._slots.get(destination)
        if slot is None:
            return self._deliver_outside(destination, message, way)
        handler = slot.make.handlers.find(message)
        if handler is None:
            self.bury(destination, Delivery(message, _nobody, way), DropReason.NO_HANDLER)
            return False
        inbox = slot.inbox
        if self.taps:
            turn = current()
            span = self.next_span()
            delivery = Delivery(
                message, handler.call, way, 0, inbox.depth(), self._monotonic(),
                turn.actor, span, turn.span, turn.trace or span,
            )  # fmt: skip
        else:
            delivery = Delivery(message, handler.call, way)
        try:
            if handler.kind is _COMMAND or way is _REQUEST:
                if waits:
                    inbox.put(delivery)
                else:
                    inbox.put_deferred(delivery, lambda late: self.bury(destination, late, DropReason.INBOX_FULL))
            else:
                self._put_lossy(destination, inbox, delivery, handler.kind)
        except InboxFullError:
            self.bury(destination, delivery, DropReason.INBOX_FULL)
            return False
        return True

    def _put_lossy(self, destination: str, inbox: Inbox, delivery: Delivery, kind: Kind) -> None:
        if kind is Kind.TELEMETRY:
            oldest = inbox.put_telemetry(delivery)
            if oldest is not None:
                self.report(destination, oldest, Outcome.DROPPED, DropReason.OLDEST_TELEMETRY)
            return
        route = delivery.message.route
        older = inbox.put_state((route.resource, route.operation, route.source), delivery)
        if older is not None:
            self.report(destination, older, Outcome.COALESCED, DropReason.SUPERSEDED)

    def _deliver_outside(self, destination: str, message: Message, way: Way) -> bool:
        if self._outside is not None and self._outside(destination, message, way):
            return True
        self.bury(destination, Delivery(message, _nobody, way), DropReason.NO_MODULE)
        return False

    def _abandon(self, seconds: float) -> None:
        """Stop what was started; why the start failed matters more than what does not stop."""
        try:
            self.stop(min(seconds, _STOP_SECONDS))
        except StopError:
            _log.exception("modules left running after a failed start")

    def _respond_observed(self, message: Message, by: str | None) -> DropReason | None:
        """Give an answer, in a span of its own, in whose course the asker goes on; and tell the taps."""
        asker = self.waiters.asker(message.header.parent_msg_id)
        turn = own()
        cause, before = turn.span, turn.trace
        span = turn.span = self.next_span()
        trace = turn.trace = before or span
        reason = self.waiters.answer(message, by)
        turn.span, turn.trace = cause, before
        outcome = Outcome.HANDLED if reason is None else Outcome.DROPPED
        now, way = self._monotonic(), Way.RESPONSE
        self._tell_taps(Record(now, asker, message, way, outcome, reason, 0, 0.0, 0.0, turn.actor, span, cause, trace))
        return reason

    def tell_watchers(self, happened: Any) -> None:
        """Tell the watchers what happened."""
        for watcher in self.watchers:
            try:
                watcher(happened)
            except Exception:  # noqa: BLE001 - an observer must not fail whom it observes
                _log.exception("a watcher failed")

    def _tell_taps(self, record: Record) -> None:
        for tap in self.taps:
            try:
                tap.delivered(record)
            except Exception:  # noqa: BLE001 - as above
                _tap_failed(tap)


def _tap_failed(tap: Tap) -> None:
    _log.exception("tap %s failed", type(tap).__name__)


def _undeliverable(destination: str, message: Message, reason: str = "nobody took it") -> UndeliverableError:
    on = f"{message.route.operation} {message.route.resource} {message.id}"
    hint = f"{reason}; see the dead letters"
    return UndeliverableError(f"cannot deliver a request to {destination}", on, hint, retryable=True)


def _settle(future: Future[Any], result: Any) -> None:
    if isinstance(result, BeehiveError):
        future.fail(result)
    else:
        future.set(result)


def _nobody(_module: Any, _message: Message) -> None:
    raise NotStartedError("a delivery without a handler was handled")

"""`Module`: the base class of modules."""

import contextlib
import itertools
import logging
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import pykka

from beehive.actor import FAILURES, Actor
from beehive.clock import Clock, Timer
from beehive.delivery import ANSWER, Delivery, DropReason, Outcome, TimerRun, TurnTaken
from beehive.errors import BeehiveError
from beehive.handlers import HandlerTable
from beehive.inbox import COMMAND_CAPACITY
from beehive.message import Message
from beehive.module_timers import Continuation, ModuleTimer, ModuleTimers
from beehive.names import OK
from beehive.resource import Side
from beehive.runtime import RunningActor
from beehive.trace_context import NO_TURN, TraceContext, own_context
from beehive.turn_clock import TurnClock

if TYPE_CHECKING:
    from beehive.hive import Hive
    from beehive.inbox import Inbox
    from beehive.slot import Slot

A = TypeVar("A", bound=Actor)
_log = logging.getLogger(__name__)


def _nothing() -> None:
    """Do nothing."""


class Module(Actor):
    """Base class of modules: actors with a name, a group and handlers, which exchange messages only.

        class PodCounter(Module):
            name = "podcounter"
            group = Group.META

            @handles(ResourceType.POD, Operation.INSERT)
            def insert(self, message: Message) -> None: ...

    An exception in a handler fails the module: the supervisor starts it again, and the message is tried again, up to
    `attempts` times, before it becomes a dead letter. So a handler responds to bad input with an error answer. With
    `on_batch_end`, all messages since the last end of a batch are tried again, because they were not committed.

    Nothing on a module's thread waits for another module or the network: `request` continues in a callback, `after` and
    `every` set timers, and all of these run on the module's thread. Private names are mangled, so that a subclass is
    free in its names.
    """

    name: ClassVar[str]
    group: ClassVar[str] = ""
    side: ClassVar[Side] = Side.EDGE
    """The grammar of the resource strings that it receives."""
    attempts: ClassVar[int] = 3
    """How often a message is tried before it becomes a dead letter."""
    announces_readiness: ClassVar[bool] = False
    """Whether it calls `announce_ready` itself; otherwise it is ready once it has started."""
    batch_limit: ClassVar[int] = 256
    """Messages after which `on_batch_end` is called even if more are waiting."""
    batch_seconds: ClassVar[float] = 0.0
    """Seconds after which it is called nevertheless; 0: no limit."""
    has_turn_clock: ClassVar[bool] = False
    """Whether its clock is a `TurnClock`, so that a replay decides as it did."""
    inbox_capacity: ClassVar[int] = COMMAND_CAPACITY
    """Commands that may wait in its inbox."""
    handlers: ClassVar[HandlerTable]

    hive: ClassVar["Hive"]
    slot: ClassVar["Slot"]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "slot" not in cls.__dict__:
            cls.handlers = HandlerTable(cls, cls.side)

    def __init__(self) -> None:
        super().__init__()
        self.__inbox: Inbox = self.slot.inbox
        clock = self.runtime.clock
        self.__monotonic, self.__now = clock.monotonic, clock.now
        self.__children: dict[int, RunningActor[Any]] = {}
        """Running actors by number. An actor takes itself out: its class and inbox keep 9 kB."""
        self.__numbers = itertools.count()
        self.__timers = ModuleTimers()
        self.__batch: list[Delivery] = []
        self.__batch_ends_at = 0.0
        """Monotonic seconds when `batch_seconds` are over."""
        self.__ending_batch = False
        self.__ends_turn = False
        """Whether the end of a batch was asked for."""
        self.__before_end: list[Callable[[], None]] = []
        """What is called before it."""
        self.__failure: BaseException | None = None
        self.__owed: dict[int, Message] = {}
        """By the identity of the header, which a message keeps when its content is dropped."""

    @cached_property
    def clock(self) -> Clock:
        """Time and randomness."""
        clock = self.runtime.clock
        return TurnClock(clock) if self.has_turn_clock else clock

    def on_batch_end(self) -> None:
        """Called after messages were handled: when the inbox is empty, after `batch_limit` messages, and before the
        module stops. Override it for a group commit. If it raises, all these messages are tried again.
        """

    def owe(self, message: Message) -> None:
        """Note that the sender of a message, in another process, waits for an answer. If this instance fails before
        `settle`, and the next one does not take the message again, `give_up` answers it. The bus does the same for
        requests.
        """
        self.__owed[id(message.header)] = message

    def settle(self, *messages: Message) -> None:
        """Note that messages are answered, or need no answer."""
        for message in messages:
            self.__owed.pop(id(message.header), None)

    def give_up(self, message: Message) -> None:
        """Answer a message that goes with a failed instance. Override it in a module that calls `owe`."""

    @classmethod
    def turn_away(cls, hive: "Hive", message: Message) -> None:
        """Answer a message that has found no room in the inbox. Override it in a module whose messages have a sender in
        another process that waits. It is called on the sender's thread or the clock's, and must not block.
        """

    def is_batch_full(self) -> bool:
        """Return whether `on_batch_end` is to be called although more messages wait. It is called after each item of
        the inbox. Override it for a group commit whose size depends on the changes that the messages make, not on the
        number of messages.
        """
        return False

    def message(self, resource: str, operation: str, content: Any = None, **fields: Any) -> Message:
        """Make a message from this module; `fields` as in `Message.new`."""
        fields.setdefault("source", self.name)
        return Message.new(self.clock, resource=resource, operation=operation, content=content, **fields)

    def send(self, destination: str, message: Message) -> None:
        """Send to a module; a message that cannot be delivered becomes a dead letter."""
        self.hive.send(destination, message)

    def broadcast(self, group: str, message: Message) -> None:
        """Send to every module of a group."""
        self.hive.broadcast(group, message)

    def respond(self, message: Message) -> None:
        """Send an answer to the request that it answers, which must have been sent to this module."""
        self.hive.respond(message, self.name)

    def reply(self, request: Message, content: Any = OK, *, source: str | None = None) -> None:
        """Answer a request."""
        self.hive.respond(request.reply(self.clock, content, source=source), self.name)

    def delegate(self, request: Message, destination: str) -> None:
        """Let another module, or the members of a group, answer a request that was sent to this module."""
        self.hive.pending_requests.delegate(request.id, self.name, (destination, *self.hive.members(destination)))

    def request(
        self, destination: str, message: Message, seconds: float, then: Callable[[Message | BeehiveError], None]
    ) -> None:
        """Send a request; `then` is called on this module's thread with the answer, or with an error by `seconds`."""
        self.hive.request_then(
            destination, message, seconds,
            lambda result: self.__continue(Continuation(self, lambda: then(result), None, ANSWER)),
        )  # fmt: skip

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        """Call `function` once on this module's thread, `seconds` from now."""
        return self.__begin(function, lambda fire: self.clock.after(seconds, fire), seconds, once=True)

    def every(self, seconds: float, function: Callable[[], None], *, jitter: float = 0.0) -> Timer:
        """Call `function` on this module's thread every `seconds`, first after one period, each longer by up to
        `jitter` of itself. A call that is due while the one before still waits in the inbox is skipped.
        """
        return self.__begin(function, lambda fire: self.clock.every(seconds, fire, jitter=jitter), seconds, once=False)

    def call_soon(self, function: Callable[[], None], name: str = "", since: float | None = None) -> None:
        """Call `function` on this module's thread. May be called from any thread.

        Args:
            function: called.
            name: of the turn for recorders, the same in each run; empty if its place among other turns does not matter.
            since: when the work began whose result it takes, in monotonic seconds, if its name does not tell it from
                others.
        """
        self.__continue(Continuation(self, function, None, name, since))

    def end_turn_soon(self, first: Callable[[], None] | None = None) -> None:
        """Have `on_batch_end` called after the items that wait, also outside a batch of messages: answers, timers and
        `call_soon` are in none. It is called from this module's thread.

        Args:
            first: called once before that; None: nothing is.
        """
        if not self.__batch and not self.__ends_turn:
            self.__begin_batch()
        self.__ends_turn = True
        if first is not None:
            self.__before_end.append(first)

    def start_actor(self, actor_class: type[A], *args: Any, name: str = "", **kwargs: Any) -> pykka.ActorRef[A]:
        """Start an actor that stops with this module, and whose failure is the module's."""
        children, number = self.__children, next(self.__numbers)
        left = staticmethod(lambda: children.pop(number, None))
        bindings = {"failed": staticmethod(self.__child_failed), "_actor_left": left}
        label = name or f"{self.name}/{actor_class.__name__}"
        running = self.runtime.start(actor_class, *args, name=label, bindings=bindings, **kwargs)
        children[number] = running
        if running.ended.settled:  # before it was in
            children.pop(number, None)
        return running.ref

    def announce_ready(self) -> None:
        """Report this module as ready."""
        self.slot.set_ready()

    def announce_not_ready(self, reason: str) -> None:
        """Report this module as not ready."""
        self.slot.set_not_ready(reason)

    def announce_progress(self) -> None:
        """Report that a part of a long start is done: the hive waits as long again for the rest."""
        self.slot.report_progress()

    def __begin(
        self, function: Callable[[], None], begin: Callable[[Callable[[], None]], Timer], seconds: float, *, once: bool
    ) -> ModuleTimer:
        timer = ModuleTimer(self, self.__continue, function, seconds, self.__monotonic(), once=once)
        self.__timers.add(timer)
        timer.start(begin)
        return timer

    def __continue(self, continuation: Continuation) -> None:
        """Put a continuation into the inbox, from any thread, unless this instance has stopped."""
        if not self.actor_stopped.is_set():
            self.__inbox.put_urgent(continuation)

    def __child_failed(self, error: BaseException) -> None:
        def fail() -> None:
            raise error

        self.__continue(Continuation(self, fail))

    def _start_actor_loop(self) -> None:
        self.slot.running = RunningActor(self.actor_ref, self.ended)
        super()._start_actor_loop()

    def _actor_loop(self) -> None:
        """Run the loop. The failure is reported last: from then on the inbox belongs to the next instance."""
        try:
            self._actor_loop_setup()
            self._actor_loop_running()
            self.__inbox.put_back(self.__batch)
            self.__leave_unanswered()
            self.__end()
            self.slot.finished()
            if self.__failure is not None:
                self.slot.failed(self.__failure)
        finally:
            self._actor_end()

    def _actor_loop_setup(self) -> None:
        try:
            self.on_start()
        except FAILURES as error:
            self.__fail(error)
        else:
            self.slot.started(ready=not self.announces_readiness)
            if self.__ends_turn:
                self.__take_turn()

    def _actor_loop_running(self) -> None:
        inbox, stopped = self.__inbox, self.actor_stopped
        self.__context: TraceContext = own_context()
        is_full = self.is_batch_full if type(self).is_batch_full is not Module.is_batch_full else None
        take = self.__handle_batched if type(self).on_batch_end is not Module.on_batch_end else self.__handle
        while not stopped.is_set():
            item = inbox.get()
            try:
                if item.__class__ is Delivery:
                    take(item)
                else:
                    self.__handle_other(item)
                ends = (self.__batch or self.__ends_turn) and (inbox.empty() or self.__is_long_batch())
                if ends or (is_full is not None and is_full()):
                    self.end_batch()
            except FAILURES as error:
                self.__fail(error, item)

    def __handle(self, delivery: Delivery) -> None:
        hive = self.hive
        header = delivery.message.header
        if header.sync:
            hive.pending_requests.assign(header.msg_id, self.name)
        context = self.__context
        if not hive.taps:
            context.began = context.wall = NO_TURN
            delivery.handler(self, delivery.message)
            return
        context.span, context.trace = delivery.span, delivery.trace
        begin = self.__monotonic()
        if self.has_turn_clock:
            context.began, context.wall = begin, self.__now()
        delivery.handler(self, delivery.message)
        hive.handled(self.name, delivery, begin)

    def __handle_batched(self, delivery: Delivery) -> None:
        if not self.__batch and not self.__ends_turn:
            self.__begin_batch()
        self.__handle(delivery)
        self.__batch.append(delivery)

    def __begin_batch(self) -> None:
        if self.batch_seconds:
            self.__batch_ends_at = self.__monotonic() + self.batch_seconds

    def __is_long_batch(self) -> bool:
        if len(self.__batch) >= self.batch_limit:
            return True
        return self.batch_seconds > 0 and self.__monotonic() >= self.__batch_ends_at

    def __handle_other(self, item: Any) -> None:
        context = self.__context
        context.began = context.wall = NO_TURN
        if item.__class__ is not Continuation:
            context.span = context.trace = 0
            self._actor_handle(item)
        elif item.owner is self:
            context.span, context.trace = item.span, item.trace
            if self.has_turn_clock and self.hive.taps:
                context.began, context.wall = self.__monotonic(), self.__now()
            timer = item.timer
            if timer is not None and self.hive.watchers and timer.active:
                self.__fire(item, timer)
                return
            if item.name and self.hive.watchers:
                hive, began = self.hive, self.__monotonic()
                span = hive.next_span()
                hive.notify_watchers(TurnTaken(began, self.name, item.name, item.since, span, item.span, item.trace))
            item.call()

    def __fire(self, item: Continuation, timer: ModuleTimer) -> None:
        """Run a timer's function and report it to the watchers. Each period begins a trace of its own."""
        hive, context, name = self.hive, self.__context, timer.name
        span = context.span = hive.next_span()
        cause = item.span if timer.once else 0
        trace = context.trace = item.trace if cause else span
        begin = self.__monotonic()
        item.call()
        now = self.__monotonic()
        waited = begin - timer.set_at if timer.once else 0.0
        hive.notify_watchers(
            TimerRun(now, self.name, name, timer.seconds, not timer.once, now - begin, span, cause, trace, waited)
        )

    def end_batch(self) -> None:
        """Call `on_batch_end` now, with the messages that were handled before: they are not tried again later, as a
        commit has their effects.
        """
        self.__ending_batch = True
        self.__ends_turn = False
        before, self.__before_end = self.__before_end, []
        for function in before:
            function()
        self.on_batch_end()
        self.__ending_batch = False
        self.__batch.clear()
        if self.__ends_turn:
            self.__take_turn()

    def __take_turn(self) -> None:
        """Wake the loop for the end of a turn that was asked for outside of its items."""
        self.call_soon(_nothing)

    def _stop(self) -> None:
        if self.__batch or self.__ends_turn:
            self.end_batch()
        super()._stop()

    def __fail(self, error: BaseException, item: Any = None) -> None:
        self.__failure, batch = error, self.__batch
        if self.__ending_batch:
            self.__batch = [delivery for delivery in batch if self.__may_try_again(delivery, error)]
        if isinstance(item, Delivery) and item not in batch and self.__may_try_again(item, error):
            self.__batch.append(item)
        self._actor_leave(error)

    def __may_try_again(self, delivery: Delivery, error: BaseException) -> bool:
        delivery.attempts += 1
        if delivery.attempts < self.attempts:
            self.hive.report(self.name, delivery, Outcome.FAILED, None)
            return True
        self.hive.dead_letter(self.name, delivery, DropReason.POISON, f"{type(error).__name__}: {error}")
        return False

    def __leave_unanswered(self) -> None:
        """Answer with an error what the next instance does not take again: its senders would wait for their time-out.
        A stop ends requests only: what a process owes to another one, its link's end tells.
        """
        kept = [delivery.message.header for delivery in self.__batch]
        if self.__failure is not None:
            again = {*map(id, kept)}
            for message in list(self.__owed.values()):
                try:
                    if id(message.header) not in again:
                        self.give_up(message)
                except FAILURES:
                    _log.exception("give_up of %s failed", self)
        self.hive.pending_requests.lose(self.name, {header.msg_id for header in kept})

    def __end(self) -> None:
        self.__timers.cancel_all()
        children = list(self.__children.values())
        for child in reversed(children):
            child.ask_to_stop()
        deadline = self.slot.stop_deadline()
        for child in reversed(children):
            with contextlib.suppress(pykka.Timeout):
                child.ended.get(timeout=max(0.0, deadline - self.__monotonic()))
                continue
            child.ref.actor_stopped.set()
            _log.warning("%s is still running at the stop deadline of module %s", child.ref, self.name)
        self.__children.clear()

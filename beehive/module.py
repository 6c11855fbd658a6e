"""A module: an actor with a name, a group and handlers, that talks to others in messages only.

A handler that raises has failed its module: the supervisor starts it again and the message is tried again, up to
`attempts` times, then it is a dead letter. Bad input is therefore not for raising but for an error answer. With
`on_batch_end`, what was handled since the last batch end is tried again too: its effects were not committed yet.

Nothing on a module's thread waits for another module or for the network: `request` goes on in a callback, `after` and
`every` are timers; all of them run in the module's own turn.

Its own parts have mangled names, so that a subclass may call its methods what it likes.
"""

import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import pykka

from beehive.actor import FAILURES, Actor
from beehive.causes import Turn, own
from beehive.clock import Timer
from beehive.delivery import Continuation, Delivery, DropReason, Fired, Outcome
from beehive.errors import BeehiveError
from beehive.handlers import HandlerTable
from beehive.inbox import COMMAND_CAPACITY
from beehive.message import Message
from beehive.names import OK
from beehive.resource import Side
from beehive.runtime import Running
from beehive.turn import TurnTimer, TurnTimers

if TYPE_CHECKING:
    from beehive.hive import Hive
    from beehive.inbox import Inbox
    from beehive.slot import Slot

A = TypeVar("A", bound=Actor)
_log = logging.getLogger(__name__)

_FIRST_SWEEP = 64
"""Actors of a module after which those that have ended are forgotten."""


class Module(Actor):
    """Base class of modules; a subclass sets `name` and `group` and marks its handlers with `@handles`."""

    name: ClassVar[str]
    group: ClassVar[str] = ""
    side: ClassVar[Side] = Side.EDGE
    """Whose resource strings it receives."""
    attempts: ClassVar[int] = 3
    """How often a message is tried before it is a dead letter."""
    announces_readiness: ClassVar[bool] = False
    """Whether it says itself when it is ready; otherwise it is once it has started."""
    batch_limit: ClassVar[int] = 256
    """Messages after which `on_batch_end` is called although more are waiting."""
    inbox_capacity: ClassVar[int] = COMMAND_CAPACITY
    """Commands that may wait for it."""
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
        self.__monotonic = self.runtime.clock.monotonic
        self.__children: list[Running[Any]] = []
        self.__sweep_at = _FIRST_SWEEP
        self.__timers = TurnTimers()
        self.__batch: list[Delivery] = []
        self.__ending_batch = False
        self.__failure: BaseException | None = None

    def on_batch_end(self) -> None:
        """Called after messages were handled: when the inbox has run empty, when `batch_limit` is reached, and before
        the module stops. The place for a group commit. When it raises, all these messages are tried again.
        """

    def message(self, resource: str, operation: str, content: Any = None, **fields: Any) -> Message:
        """A new message from this module; `fields` as in `Message.new`."""
        fields.setdefault("source", self.name)
        return Message.new(self.clock, resource=resource, operation=operation, content=content, **fields)

    def send(self, destination: str, message: Message) -> None:
        """Send to a module; what cannot be delivered is a dead letter."""
        self.hive.send(destination, message)

    def broadcast(self, group: str, message: Message) -> None:
        """Send to every module of a group."""
        self.hive.broadcast(group, message)

    def respond(self, message: Message) -> None:
        """Give an answer to whoever waits for it, having asked this module."""
        self.hive.respond(message, self.name)

    def reply(self, request: Message, content: Any = OK, *, source: str | None = None) -> None:
        """Answer a request."""
        self.hive.respond(request.reply(self.clock, content, source=source), self.name)

    def delegate(self, request: Message, destination: str) -> None:
        """Let a module, or the members of a group, answer a request that was put to this module and is handed on."""
        self.hive.waiters.delegate(request.id, self.name, (destination, *self.hive.members(destination)))

    def request(
        self, destination: str, message: Message, seconds: float, then: Callable[[Message | BeehiveError], None]
    ) -> None:
        """Send, and go on in `then` when the answer, or the error that ends the wait, is there."""
        self.hive.request_then(
            destination, message, seconds, lambda result: self.__continue(Continuation(self, lambda: then(result)))
        )

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        """Call `function` on this module once, `seconds` from now."""
        return self.__begin(function, lambda fire: self.clock.after(seconds, fire), seconds, once=True)

    def every(self, seconds: float, function: Callable[[], None], *, jitter: float = 0.0) -> Timer:
        """Call `function` on this module every `seconds`, first after one period, each longer by up to `jitter` of
        itself. A period that comes due while the one before still waits in the inbox is left out.
        """
        return self.__begin(function, lambda fire: self.clock.every(seconds, fire, jitter=jitter), seconds, once=False)

    def call_soon(self, function: Callable[[], None]) -> None:
        """Call `function` on this module, in its turn; for its own threads and actors."""
        self.__continue(Continuation(self, function))

    def start_actor(self, actor_class: type[A], *args: Any, name: str = "", **kwargs: Any) -> pykka.ActorRef[A]:
        """Start an actor that lives and dies with this module; when it fails, the module has failed."""
        bindings = {"failed": staticmethod(self.__child_failed)}
        label = name or f"{self.name}/{actor_class.__name__}"
        running = self.runtime.start(actor_class, *args, name=label, bindings=bindings, **kwargs)
        if len(self.__children) >= self.__sweep_at:
            self.__children = [child for child in self.__children if not child.ended.settled]
            self.__sweep_at = max(_FIRST_SWEEP, 2 * len(self.__children))
        self.__children.append(running)
        return running.ref

    def announce_ready(self) -> None:
        """Say that this module can do its work."""
        self.slot.set_ready()

    def announce_not_ready(self, reason: str) -> None:
        """Say that it cannot, and why."""
        self.slot.set_not_ready(reason)

    def __begin(
        self, function: Callable[[], None], begin: Callable[[Callable[[], None]], Timer], seconds: float, *, once: bool
    ) -> TurnTimer:
        timer = TurnTimer(self, self.__continue, function, seconds, once=once)
        self.__timers.add(timer)
        timer.start(begin)
        return timer

    def __continue(self, continuation: Continuation) -> None:
        """From any thread; what is for a life that has ended is forgotten."""
        if not self.actor_stopped.is_set():
            self.__inbox.put_urgent(continuation)

    def __child_failed(self, error: BaseException) -> None:
        def fail() -> None:
            raise error

        self.__continue(Continuation(self, fail))

    def _start_actor_loop(self) -> None:
        self.slot.running = Running(self.actor_ref, self.ended)
        super()._start_actor_loop()

    def _actor_loop(self) -> None:
        """The failure is told last: from then on the inbox belongs to the module's next life."""
        try:
            self._actor_loop_setup()
            self._actor_loop_running()
            self.__inbox.put_back(self.__batch)
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

    def _actor_loop_running(self) -> None:
        inbox, stopped = self.__inbox, self.actor_stopped
        self.__turn: Turn = own()
        take = self.__take_batched if type(self).on_batch_end is not Module.on_batch_end else self.__take
        while not stopped.is_set():
            item = inbox.get()
            try:
                if item.__class__ is Delivery:
                    take(item)
                else:
                    self.__take_other(item)
                if self.__batch and (len(self.__batch) >= self.batch_limit or inbox.empty()):
                    self.__end_batch()
            except FAILURES as error:
                self.__fail(error, item)

    def __take(self, delivery: Delivery) -> None:
        hive = self.hive
        if not hive.taps:
            delivery.handler(self, delivery.message)
            return
        turn = self.__turn
        turn.span, turn.trace = delivery.span, delivery.trace
        begin = self.__monotonic()
        delivery.handler(self, delivery.message)
        hive.handled(self.name, delivery, begin)

    def __take_batched(self, delivery: Delivery) -> None:
        self.__take(delivery)
        self.__batch.append(delivery)

    def __take_other(self, item: Any) -> None:
        turn = self.__turn
        if item.__class__ is not Continuation:
            turn.span = turn.trace = 0
            self._actor_take(item)
        elif item.owner is self:
            turn.span, turn.trace = item.span, item.trace
            timer = item.timer
            if timer is not None and self.hive.watchers and timer.active:
                self.__fire(item, timer)
            else:
                item.call()

    def __fire(self, item: Continuation, timer: TurnTimer) -> None:
        """Run a timer's function, observed. Each period begins a trace of its own."""
        hive, turn, name = self.hive, self.__turn, timer.name
        span = turn.span = hive.next_span()
        cause = item.span if timer.once else 0
        trace = turn.trace = item.trace if cause else span
        begin = self.__monotonic()
        item.call()
        now = self.__monotonic()
        hive.tell_watchers(Fired(now, self.name, name, timer.seconds, not timer.once, now - begin, span, cause, trace))

    def __end_batch(self) -> None:
        self.__ending_batch = True
        self.on_batch_end()
        self.__ending_batch = False
        self.__batch.clear()

    def _stop(self) -> None:
        if self.__batch:
            self.__end_batch()
        super()._stop()

    def __fail(self, error: BaseException, item: Any = None) -> None:
        self.__failure = error
        self._actor_leave(error)
        if self.__ending_batch:
            self.__batch = [delivery for delivery in self.__batch if self.__may_try_again(delivery, error)]
        elif isinstance(item, Delivery) and self.__may_try_again(item, error):
            self.__batch.append(item)

    def __may_try_again(self, delivery: Delivery, error: BaseException) -> bool:
        delivery.attempts += 1
        if delivery.attempts < self.attempts:
            self.hive.report(self.name, delivery, Outcome.FAILED, None)
            return True
        self.hive.bury(self.name, delivery, DropReason.POISON, f"{type(error).__name__}: {error}")
        return False

    def __end(self) -> None:
        self.__timers.cancel_all()
        for child in reversed(self.__children):
            child.ask_to_stop()
        deadline = self.slot.stop_deadline()
        for child in reversed(self.__children):
            with contextlib.suppress(pykka.Timeout):
                child.ended.get(timeout=max(0.0, deadline - self.clock.monotonic()))
                continue
            child.ref.actor_stopped.set()
            _log.warning("%s is still running at the stop deadline of module %s", child.ref, self.name)
        self.__children.clear()

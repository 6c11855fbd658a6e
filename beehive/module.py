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
from beehive.clock import Timer
from beehive.delivery import Continuation, Delivery, DropReason, Outcome
from beehive.errors import BeehiveError
from beehive.handlers import HandlerTable
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
    handlers: ClassVar[HandlerTable]

    hive: ClassVar["Hive"]
    slot: ClassVar["Slot"]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "slot" not in cls.__dict__:
            cls.handlers = HandlerTable(cls, cls.side)

    def __init__(self) -> None:
        super().__init__()
        self._inbox: Inbox = self.slot.inbox
        self.__children: list[Running[Any]] = []
        self._sweep_at = _FIRST_SWEEP
        self.__timers = TurnTimers()
        self._batch: list[Delivery] = []
        self._failure: BaseException | None = None

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
        """Give an answer to whoever waits for it."""
        self.hive.respond(message)

    def reply(self, request: Message, content: Any = OK, *, source: str | None = None) -> None:
        """Answer a request."""
        self.hive.respond(request.reply(self.clock, content, source=source))

    def request(
        self, destination: str, message: Message, seconds: float, then: Callable[[Message | BeehiveError], None]
    ) -> None:
        """Send, and go on in `then` when the answer, or the error that ends the wait, is there."""
        self.hive.request_then(
            destination, message, seconds, lambda result: self._continue(Continuation(self, lambda: then(result)))
        )

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        """Call `function` on this module once, `seconds` from now."""
        return self._begin(function, lambda fire: self.clock.after(seconds, fire), once=True)

    def every(self, seconds: float, function: Callable[[], None], *, jitter: float = 0.0) -> Timer:
        """Call `function` on this module every `seconds`, first after one period, each longer by up to `jitter` of
        itself. A period that comes due while the one before still waits in the inbox is left out.
        """
        return self._begin(function, lambda fire: self.clock.every(seconds, fire, jitter=jitter), once=False)

    def call_soon(self, function: Callable[[], None]) -> None:
        """Call `function` on this module, in its turn; for its own threads and actors."""
        self._continue(Continuation(self, function))

    def start_actor(self, actor_class: type[A], *args: Any, name: str = "", **kwargs: Any) -> pykka.ActorRef[A]:
        """Start an actor that lives and dies with this module; when it fails, the module has failed."""
        bindings = {"failed": staticmethod(self._child_failed)}
        label = name or f"{self.name}/{actor_class.__name__}"
        running = self.runtime.start(actor_class, *args, name=label, bindings=bindings, **kwargs)
        if len(self.__children) >= self._sweep_at:
            self.__children = [child for child in self.__children if not child.ended.settled]
            self._sweep_at = max(_FIRST_SWEEP, 2 * len(self.__children))
        self.__children.append(running)
        return running.ref

    def announce_ready(self) -> None:
        """Say that this module can do its work."""
        self.slot.set_ready()

    def announce_not_ready(self, reason: str) -> None:
        """Say that it cannot, and why."""
        self.slot.set_not_ready(reason)

    def _begin(
        self, function: Callable[[], None], begin: Callable[[Callable[[], None]], Timer], *, once: bool
    ) -> TurnTimer:
        timer = TurnTimer(self, self._continue, function, once=once)
        self.__timers.add(timer)
        timer.start(begin)
        return timer

    def _continue(self, continuation: Continuation) -> None:
        """From any thread; what is for a life that has ended is forgotten."""
        if not self.actor_stopped.is_set():
            self._inbox.put_urgent(continuation)

    def _child_failed(self, error: BaseException) -> None:
        def fail() -> None:
            raise error

        self._continue(Continuation(self, fail))

    def _start_actor_loop(self) -> None:
        self.slot.running = Running(self.actor_ref, self.ended)
        super()._start_actor_loop()

    def _actor_loop(self) -> None:
        """The failure is told last: from then on the inbox belongs to the module's next life."""
        try:
            self._actor_loop_setup()
            self._actor_loop_running()
        finally:
            self.slot.finished()
            if self._failure is not None:
                self.slot.failed(self._failure)
            self.ended.set()

    def _actor_loop_setup(self) -> None:
        try:
            self.on_start()
        except FAILURES as error:
            self.__fail(error)
        else:
            self.slot.started(ready=not self.announces_readiness)

    def _actor_loop_running(self) -> None:
        inbox, stopped = self._inbox, self.actor_stopped
        take = self._take_batched if type(self).on_batch_end is not Module.on_batch_end else self.__take
        while not stopped.is_set():
            item = inbox.get()
            try:
                if item.__class__ is Delivery:
                    take(item)
                else:
                    self._take_other(item)
                if self._batch and (len(self._batch) >= self.batch_limit or inbox.empty()):
                    self._end_batch()
            except FAILURES as error:
                self.__fail(error, item)

    def __take(self, delivery: Delivery) -> None:
        hive = self.hive
        if not hive.taps:
            delivery.handler(self, delivery.message)
            return
        begin = self.clock.monotonic()
        delivery.handler(self, delivery.message)
        hive.report(self.name, delivery, Outcome.HANDLED, None, begin)

    def _take_batched(self, delivery: Delivery) -> None:
        self.__take(delivery)
        self._batch.append(delivery)

    def _take_other(self, item: Any) -> None:
        if item.__class__ is not Continuation:
            self._take_envelope(item)
        elif item.owner is self:
            item.call()

    def _end_batch(self) -> None:
        self.on_batch_end()
        self._batch.clear()

    def _stop(self) -> None:
        if self._batch:
            self._end_batch()
        super()._stop()
        self.__end()

    def __fail(self, error: BaseException, item: Any = None) -> None:
        self._failure = error
        self._leave(error)
        self.__try_again_later(item if isinstance(item, Delivery) else None, error)
        self.__end()

    def __try_again_later(self, culprit: Delivery | None, error: BaseException) -> None:
        """Put back the uncommitted batch and the message that failed.

        Only that one is blamed, unless it was handled and the batch's own end has failed: then all are.
        """
        batch, self._batch = self._batch, []
        blamed = batch if culprit is None or culprit in batch else [culprit]
        retried = [delivery for delivery in batch if delivery not in blamed]
        retried += [delivery for delivery in blamed if self._may_try_again(delivery, error)]
        self._inbox.put_back(retried)

    def _may_try_again(self, delivery: Delivery, error: BaseException) -> bool:
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

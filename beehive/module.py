"""A module: an actor with a name, a group and handlers, that talks to others in messages only.

A handler that raises has failed its module: the supervisor starts it again and the message is tried again, up to
`attempts` times, then it is a dead letter. Bad input is therefore not for raising but for an error answer.

Nothing on a module's thread waits for another module or for the network: `request` goes on in a callback, `after` and
`every` are timers; all of them run in the module's own turn.
"""

import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import pykka
from pykka import messages as pykka_messages

from beehive.actor import Actor
from beehive.clock import Timer
from beehive.delivery import Continuation, Delivery, DropReason, Outcome
from beehive.errors import BeehiveError
from beehive.handlers import HandlerTable
from beehive.message import Message
from beehive.names import OK
from beehive.resource import Side

if TYPE_CHECKING:
    from beehive.hive import Hive, Slot
    from beehive.runtime import Running

A = TypeVar("A", bound=Actor)
_log = logging.getLogger(__name__)


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
    handlers: ClassVar[HandlerTable]

    hive: ClassVar["Hive"]
    slot: ClassVar["Slot"]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "slot" not in cls.__dict__:
            cls.handlers = HandlerTable(cls, cls.side)

    def __init__(self) -> None:
        super().__init__()
        self._children: list[Running[Any]] = []
        self._timers: list[Timer] = []

    def on_batch_end(self) -> None:
        """Called when the inbox has run empty after something was handled; the place for a group commit."""

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
        inbox = self.actor_inbox

        def done(result: Any) -> None:
            inbox.put_urgent(Continuation(lambda: then(result)))  # type: ignore[attr-defined]

        self.hive.request_then(destination, message, seconds, done)

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        """Call `function` on this module once, `seconds` from now."""
        return self._keep(self.clock.after(seconds, self._in_turn(function)))

    def every(self, seconds: float, function: Callable[[], None], *, jitter: float = 0.0) -> Timer:
        """Call `function` on this module every `seconds`, first after one period."""
        return self._keep(self.clock.every(seconds, self._in_turn(function), jitter=jitter))

    def call_soon(self, function: Callable[[], None]) -> None:
        """Call `function` on this module, in its turn; for its own threads and actors."""
        self._in_turn(function)()

    def start_actor(self, actor_class: type[A], *args: Any, name: str = "", **kwargs: Any) -> pykka.ActorRef[A]:
        """Start an actor that lives and dies with this module; when it fails, the module has failed."""
        self_ref, slot = self.actor_ref, self.slot
        bindings = {"failed": staticmethod(lambda error: slot.child_failed(self_ref, error))}
        label = name or f"{self.name}/{actor_class.__name__}"
        running = self.runtime.start(actor_class, *args, name=label, bindings=bindings, **kwargs)
        self._children.append(running)
        return running.ref

    def announce_ready(self) -> None:
        """Say that this module can do its work."""
        self.slot.set_ready()

    def announce_not_ready(self, reason: str) -> None:
        """Say that it cannot, and why."""
        self.slot.set_not_ready(reason)

    def _keep(self, timer: Timer) -> Timer:
        if len(self._timers) >= 256:
            self._timers = self._timers[128:]
        self._timers.append(timer)
        return timer

    def _in_turn(self, function: Callable[[], None]) -> Callable[[], None]:
        inbox, stopped = self.actor_inbox, self.actor_stopped
        item = Continuation(function)

        def fire() -> None:
            if not stopped.is_set():
                inbox.put_urgent(item)  # type: ignore[attr-defined]

        return fire

    def _actor_loop_setup(self) -> None:
        try:
            self.on_start()
        except BaseException as error:
            self._fail(error)
            if not isinstance(error, Exception):
                raise
        else:
            self.slot.started(ready=not self.announces_readiness)

    def _actor_loop_running(self) -> None:
        inbox, stopped = self.slot.inbox, self.actor_stopped
        batches = type(self).on_batch_end is not Module.on_batch_end
        while not stopped.is_set():
            item = inbox.get()
            try:
                if item.__class__ is Delivery:
                    self._take(item)
                elif item.__class__ is Continuation:
                    item.call()
                else:
                    self._take_envelope(item)
                if batches and inbox.empty() and not stopped.is_set():
                    self.on_batch_end()
            except Exception as error:  # noqa: BLE001 - the supervisor's whole purpose
                self._fail(error, item)

    def _take(self, delivery: Delivery) -> None:
        hive = self.hive
        if not hive.taps:
            delivery.handler(self, delivery.message)
            return
        begin = self.clock.monotonic()
        delivery.handler(self, delivery.message)
        hive.report(self.name, delivery, Outcome.HANDLED, None, begin)

    def _take_envelope(self, envelope: Any) -> None:
        try:
            response = self._handle_receive(envelope.message)
        except Exception:
            if envelope.reply_to is None:
                raise
            envelope.reply_to.set_exception()
        else:
            if envelope.reply_to is not None:
                envelope.reply_to.set(response)

    def _fail(self, error: BaseException, item: Any = None) -> None:
        pykka.ActorRegistry.unregister(self.actor_ref)
        self.actor_stopped.set()
        if isinstance(item, Delivery):
            self._try_again_later(item, error)
        with contextlib.suppress(Exception):
            self.on_failure(type(error), error, error.__traceback__)
        self._end()
        self.slot.failed(error)

    def _try_again_later(self, delivery: Delivery, error: BaseException) -> None:
        delivery.attempts += 1
        if delivery.attempts < self.attempts:
            self.hive.report(self.name, delivery, Outcome.FAILED, None)
            self.slot.inbox.put_back(delivery)
        else:
            self.hive.bury(self.name, delivery, DropReason.POISON, f"{type(error).__name__}: {error}")

    def _stop(self) -> None:
        super()._stop()
        self._end()

    def _end(self) -> None:
        for timer in self._timers:
            timer.cancel()
        for child in reversed(self._children):
            child.ref.stop(block=False)
        deadline = self.slot.stop_deadline()
        for child in reversed(self._children):
            remaining = max(0.0, deadline - self.clock.monotonic())
            with contextlib.suppress(pykka.Timeout):
                child.ended.get(timeout=remaining)
                continue
            _log.warning("%s is still running at the stop deadline of module %s", child.ref, self.name)
        self._children.clear()
        self._timers.clear()

    def _actor_loop_teardown(self) -> None:
        if not self.slot.keeps_inbox():
            self.slot.flush()

    def _handle_receive(self, message: Any) -> Any:
        if isinstance(message, pykka_messages._ActorStop):
            return self._stop()
        return super()._handle_receive(message)

"""The base class of all actors: a pykka actor whose thread, inbox, futures and time come from a runtime."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import pykka
from pykka import messages as pykka_messages

from beehive.actor_inbox import CausedEnvelope
from beehive.errors import NotStartedError
from beehive.trace_context import own_context

if TYPE_CHECKING:
    from beehive.clock import Clock
    from beehive.runtime import Future, Runtime

_HINT = "start actors with Runtime.start or Module.start_actor"
_log = logging.getLogger(__name__)

FAILURES = (Exception, SystemExit, KeyboardInterrupt)
"""Exceptions that end an actor as a failure. A greenlet's own exit signal is not one of them and must pass."""


class Actor(pykka.Actor):
    """An actor that is not a module: a worker, a watcher, a part of a module.

    An exception in the handling of a message stops the actor and is passed to `failed`. An exception in the handling of
    a request (`ask`, proxies) is raised at the caller instead, and the actor goes on.

    `Runtime.start` binds the actor to a runtime, pykka's hooks (`_create_actor_inbox`, `_create_future`,
    `_start_actor_loop`) included, so that one class runs as a thread in production and as a greenlet in simulation.

    The message loop replaces pykka's, which answers a `SystemExit` in one actor by stopping all actors of the process,
    only logs the failure of an `on_start`, and leaves a request unanswered that arrives while the actor ends. Private
    names begin with `_actor_`, or are mangled, so that they cannot clash with a subclass's names.
    """

    runtime: ClassVar["Runtime"]
    """Set by `Runtime.start`: the runtime of the actor."""

    ended: ClassVar["Future[None]"]
    """Set by `Runtime.start`: settled when the loop has ended."""

    spawn: ClassVar[Callable[[Callable[[], None]], None]]
    """Set by `Runtime.start`: runs the loop on a thread or greenlet of its own."""

    failed: ClassVar[Callable[[BaseException], None]] = staticmethod(lambda _error: None)
    """Set by `Module.start_actor`: called with the exception that stopped the actor."""

    _actor_left: ClassVar[Callable[[], None]] = staticmethod(lambda: None)
    """Set by `Module.start_actor`: called on the actor's thread when the loop has ended."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        super().__init__()

    @property
    def clock(self) -> "Clock":
        """Time and randomness."""
        return self.runtime.clock

    @staticmethod
    def _create_actor_inbox() -> Any:
        raise NotStartedError("cannot create an actor", hint=_HINT)

    @staticmethod
    def _create_future() -> pykka.Future[Any]:
        raise NotStartedError("cannot create an actor", hint=_HINT)

    def on_end(self) -> None:
        """Override it to close what the actor has opened: in the end, be it a stop or a failure."""

    def on_stop(self) -> None:
        """Override it for what only a stop does, beside `on_end`."""
        self.on_end()

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:  # noqa: ARG002 - pykka's
        """Override it for what only a failure does, beside `on_end`."""
        self.on_end()

    def _start_actor_loop(self) -> None:
        try:
            type(self).spawn(self._actor_loop)
        except BaseException:
            self._actor_end()
            raise

    def _actor_loop(self) -> None:
        try:
            super()._actor_loop()
        finally:
            self._actor_end()

    def _actor_end(self) -> None:
        """Unregister the actor, which is still registered if its stop deadline has passed, and settle `ended`."""
        pykka.ActorRegistry.unregister(self.actor_ref)
        self.ended.set()
        type(self)._actor_left()

    def _actor_loop_setup(self) -> None:
        try:
            self.on_start()
        except FAILURES as error:
            self._actor_fail(error)

    def _actor_loop_running(self) -> None:
        inbox, stopped, context = self.actor_inbox, self.actor_stopped, own_context()
        while not stopped.is_set():
            envelope = inbox.get()
            if envelope.__class__ is CausedEnvelope:
                context.span, context.trace = envelope.span, envelope.trace
            else:
                context.span = context.trace = 0
            try:
                self._actor_handle(envelope)
            except FAILURES as error:
                self._actor_fail(error)

    def _actor_loop_teardown(self) -> None:
        self.actor_inbox.close(_refuse)  # type: ignore[attr-defined]

    def _actor_handle(self, envelope: Any) -> None:
        try:
            response = self._handle_receive(envelope.message)
        except FAILURES:
            if envelope.reply_to is None:
                raise
            envelope.reply_to.set_exception()
        else:
            if envelope.reply_to is not None:
                envelope.reply_to.set(response)

    def _actor_fail(self, error: BaseException) -> None:
        self._actor_leave(error)
        type(self).failed(error)

    def _actor_leave(self, error: BaseException) -> None:
        """Stop taking messages because of `error`."""
        pykka.ActorRegistry.unregister(self.actor_ref)
        self.actor_stopped.set()
        try:
            self.on_failure(type(error), error, error.__traceback__)
        except FAILURES:
            _log.exception("on_failure of %s failed", self)


def _refuse(envelope: Any) -> None:
    if envelope.reply_to is None:
        return
    if isinstance(envelope.message, pykka_messages._ActorStop):
        envelope.reply_to.set(None)
    else:
        envelope.reply_to.set_exception((None, pykka.ActorDeadError("stopped before it took the message"), None))

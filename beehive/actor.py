"""The base of everything that runs: a pykka actor whose thread, inbox, futures and time come from a runtime.

Pykka's own hooks (`_create_actor_inbox`, `_create_future`, `_start_actor_loop`) are bound to a runtime when the
actor is started, so one class runs as a thread in production and as a greenlet in simulation.

The loop is ours where pykka's would not do: pykka answers a `SystemExit` in one actor by stopping all actors of the
process, says nothing when `on_start` fails, and lets a question that comes while an actor ends wait for ever. Private
names here begin with `_actor_`, or are mangled, so that they cannot clash with those of a subclass.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import pykka
from pykka import messages as pykka_messages

from beehive.actor_inbox import CausedEnvelope
from beehive.causes import own
from beehive.errors import NotStartedError

if TYPE_CHECKING:
    from beehive.clock import Clock
    from beehive.runtime import Future, Runtime

_HINT = "start actors with Runtime.start or Module.start_actor"
_log = logging.getLogger(__name__)

FAILURES = (Exception, SystemExit, KeyboardInterrupt)
"""What ends an actor as a failure. A greenlet's own exit signal is not among them and must pass."""


class Actor(pykka.Actor):
    """An actor without a place on the bus: a worker, a watcher, a part of a module.

    When one of its messages raises, it stops and tells whoever started it (`failed`), who decides what goes on. What
    it is asked (`ask`, proxies) raises at the asker instead, and the actor goes on.
    """

    runtime: ClassVar["Runtime"]
    """Bound when it is started."""

    ended: ClassVar["Future[None]"]
    """Bound when it is started: settled when its loop is through."""

    spawn: ClassVar[Callable[[Callable[[], None]], None]]
    """Bound when it is started: runs the loop beside the others."""

    failed: ClassVar[Callable[[BaseException], None]] = staticmethod(lambda _error: None)
    """Bound when it is started: told of the exception that stopped the actor."""

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

    def _start_actor_loop(self) -> None:
        type(self).spawn(self._actor_loop)

    def _actor_loop(self) -> None:
        try:
            super()._actor_loop()
        finally:
            self._actor_end()

    def _actor_end(self) -> None:
        """The last act; an actor whose stop deadline has passed is still registered."""
        pykka.ActorRegistry.unregister(self.actor_ref)
        self.ended.set()

    def _actor_loop_setup(self) -> None:
        try:
            self.on_start()
        except FAILURES as error:
            self._actor_fail(error)

    def _actor_loop_running(self) -> None:
        inbox, stopped, turn = self.actor_inbox, self.actor_stopped, own()
        while not stopped.is_set():
            envelope = inbox.get()
            if envelope.__class__ is CausedEnvelope:
                turn.span, turn.trace = envelope.span, envelope.trace
            else:
                turn.span = turn.trace = 0
            try:
                self._actor_take(envelope)
            except FAILURES as error:
                self._actor_fail(error)

    def _actor_loop_teardown(self) -> None:
        self.actor_inbox.close(_refuse)  # type: ignore[attr-defined]

    def _actor_take(self, envelope: Any) -> None:
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
        """Take no more messages, because of `error`."""
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

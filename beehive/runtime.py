"""What actors run on. `Threads` is the one of production; `beehive.simulation` has the other.

A runtime gives four things: a way to start an actor, queues, futures, and a clock. Code above it never asks which
it is.
"""

import queue
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar, cast

import pykka

from beehive.actor import Actor
from beehive.actor_inbox import ActorInbox
from beehive.causes import as_actor
from beehive.clock import Clock, RealClock
from beehive.inbox import Inbox, Queue

A = TypeVar("A", bound=Actor)
T = TypeVar("T")


class Future(pykka.Future[T]):
    """Shared part of both runtimes' futures: settled once, read many times."""

    _settled = False
    _value: Any = None
    _error: BaseException | None = None
    _get_hook: Callable[[float | None], Any] | None = None
    _get_hook_result: Any = pykka._future._Unset()

    def __init__(self) -> None:
        """All fields begin as the class has them: a request makes a future, so every assignment counts."""

    def get(self, *, timeout: float | None = None) -> Any:
        """The value; raises its exception, or `pykka.Timeout` after `timeout` seconds."""
        if self._get_hook is not None:
            return super().get(timeout=timeout)
        if not self._settled:
            self._wait(timeout)
        if self._error is not None:
            raise self._error
        return self._value

    def set(self, value: Any = None) -> None:
        """Settle with a value.

        Raises:
            queue.Full: it is settled already (pykka's contract).
        """
        self._settle(value, None)

    def set_exception(self, exc_info: Any = None) -> None:
        """Settle with an exception; that being handled when none is given."""
        self._settle(None, (exc_info or sys.exc_info())[1])

    def fail(self, error: BaseException) -> None:
        """Settle with an exception object."""
        self._settle(None, error)

    @property
    def settled(self) -> bool:
        """Whether `get` returns at once."""
        return self._settled

    def _settle(self, value: Any, error: BaseException | None) -> None:
        if self._settled or self._get_hook is not None:
            raise queue.Full
        self._value, self._error = value, error
        self._settled = True
        self._wake()

    def _wait(self, timeout: float | None) -> None:
        raise NotImplementedError

    def _wake(self) -> None:
        raise NotImplementedError


_new_lock = threading.Lock


class ThreadFuture(Future[T]):
    """A future on one raw lock: a third of the cost of a condition variable, and requests are made of them."""

    def __init__(self) -> None:
        self._gate = gate = _new_lock()
        gate.acquire()

    def _wait(self, timeout: float | None) -> None:
        if not self._gate.acquire(timeout=-1 if timeout is None else min(max(0.0, timeout), threading.TIMEOUT_MAX)):
            raise pykka.Timeout(f"{timeout} seconds")
        self._gate.release()

    def _wake(self) -> None:
        self._gate.release()


class Running(NamedTuple, Generic[A]):
    """An actor that was started."""

    ref: pykka.ActorRef[A]
    ended: Future[None]
    """Settled when its loop is through: after it, nothing of the actor runs."""

    def ask_to_stop(self) -> None:
        """Let the actor stop when it has handled what waits already; never blocks."""
        if not self.ref.actor_stopped.is_set():
            envelope: Any = pykka._envelope.Envelope(pykka.messages._ActorStop())
            self.ref.actor_inbox.put_urgent(envelope)  # type: ignore[attr-defined]

    def stop(self, seconds: float) -> bool:
        """Ask it to stop and wait; False when it is still running after `seconds`. It ends with what it is at."""
        self.ask_to_stop()
        try:
            self.ended.get(timeout=max(0.0, seconds))
        except pykka.Timeout:
            self.ref.actor_stopped.set()
            return False
        return True


class Runtime(ABC):
    """See the module's docstring."""

    clock: Clock

    @abstractmethod
    def queue(self) -> Queue:
        """A new queue for an inbox."""

    @abstractmethod
    def future(self) -> Future[Any]:
        """A new future."""

    @abstractmethod
    def close(self) -> None:
        """Let nothing of the runtime itself go on; after the hives on it have stopped."""

    @abstractmethod
    def _spawn(self, function: Callable[[], None], name: str) -> None:
        """Run an actor's loop beside the others."""

    def start(
        self,
        actor_class: type[A],
        *args: Any,
        name: str = "",
        inbox: Inbox | None = None,
        bindings: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Running[A]:
        """Start an actor.

        Args:
            actor_class: its class; `args` and `kwargs` go to its constructor.
            name: of its thread, for logs and dumps.
            inbox: one that outlives the actor; otherwise it gets its own.
            bindings: further class attributes, set before the constructor runs.
        """
        name = name or actor_class.__name__
        ended: Future[None] = self.future()
        box = inbox if inbox is not None else ActorInbox(self, name=name)
        attributes: dict[str, Any] = {
            "__module__": actor_class.__module__,
            "__qualname__": actor_class.__qualname__,
            "__doc__": actor_class.__doc__,
            "runtime": self,
            "ended": ended,
            "_create_actor_inbox": staticmethod(lambda: box),
            "_create_future": staticmethod(self.future),
            "spawn": staticmethod(lambda loop: self._spawn(as_actor(name, loop), name)),
            **(bindings or {}),
        }
        bound = cast("type[A]", type(actor_class.__name__, (actor_class,), attributes))
        return Running(bound.start(*args, **kwargs), ended)


class Threads(Runtime):
    """An actor is a thread, the clock is the machine's."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock if clock is not None else RealClock()

    def queue(self) -> Queue:
        return queue.SimpleQueue()

    def future(self) -> Future[Any]:
        return ThreadFuture()

    def close(self) -> None:
        """End the clock's thread; timers that are still set do not fire."""
        self.clock.close()

    def _spawn(self, function: Callable[[], None], name: str) -> None:
        threading.Thread(target=function, name=name, daemon=True).start()

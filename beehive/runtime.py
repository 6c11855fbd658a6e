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
from beehive.clock import Clock, RealClock
from beehive.inbox import Inbox, Queue

A = TypeVar("A", bound=Actor)
T = TypeVar("T")


class Future(pykka.Future[T]):
    """Shared part of both runtimes' futures: settled once, read many times."""

    def __init__(self) -> None:
        super().__init__()
        self._settled = False
        self._value: Any = None
        self._error: BaseException | None = None

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


class ThreadFuture(Future[T]):
    """A future on one raw lock: a third of the cost of a condition variable, and requests are made of them."""

    def __init__(self) -> None:
        super().__init__()
        self._gate = threading.Lock()
        self._gate.acquire()

    def _wait(self, timeout: float | None) -> None:
        if not self._gate.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
            raise pykka.Timeout(f"{timeout} seconds")
        self._gate.release()

    def _wake(self) -> None:
        self._gate.release()


class Running(NamedTuple, Generic[A]):
    """An actor that was started."""

    ref: pykka.ActorRef[A]
    ended: Future[None]
    """Settled when its loop is through: after it, nothing of the actor runs."""


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
        box = inbox if inbox is not None else Inbox(self, name=name)
        attributes: dict[str, Any] = {
            "__module__": actor_class.__module__,
            "__qualname__": actor_class.__qualname__,
            "__doc__": actor_class.__doc__,
            "runtime": self,
            "ended": ended,
            "_create_actor_inbox": staticmethod(lambda: box),
            "_create_future": staticmethod(self.future),
            "_start_actor_loop": lambda actor: self._spawn(actor._actor_loop, name),
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

    def _spawn(self, function: Callable[[], None], name: str) -> None:
        threading.Thread(target=function, name=name, daemon=True).start()

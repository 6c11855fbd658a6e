"""Runtimes: actors on threads (`Threads`), and the base class of the simulation."""

import queue
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

import msgspec
import pykka

from beehive.actor import FAILURES, Actor
from beehive.actor_inbox import ActorInbox
from beehive.clock import Clock, RealClock
from beehive.inbox import Inbox, Queue
from beehive.trace_context import as_actor

A = TypeVar("A", bound=Actor)
T = TypeVar("T")


class Future(pykka.Future[T]):
    """A future that is settled once and read many times; both runtimes have a subclass."""

    _settled = False
    _value: Any = None
    _error: BaseException | None = None
    _get_hook: Callable[[float | None], Any] | None = None
    _get_hook_result: Any = pykka._future._Unset()

    def __init__(self) -> None:
        """Leave all fields at their class defaults: each request makes a future, so every assignment counts."""

    def get(self, *, timeout: float | None = None) -> Any:
        """Return the value; raise its exception, or `pykka.Timeout` after `timeout` seconds."""
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
            queue.Full: the future is settled already (pykka's contract).
        """
        self._settle(value, None)

    def set_exception(self, exc_info: Any = None) -> None:
        """Settle with an exception, by default the one being handled."""
        self._settle(None, (exc_info or sys.exc_info())[1])

    def fail(self, error: BaseException) -> None:
        """Settle with an exception object."""
        self._settle(None, error)

    @property
    def settled(self) -> bool:
        """Whether `get` does not block."""
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
    """A future on one raw lock, which costs a third of a condition variable; each request makes one."""

    def __init__(self) -> None:
        self._gate = gate = _new_lock()
        gate.acquire()

    def _wait(self, timeout: float | None) -> None:
        if not self._gate.acquire(timeout=-1 if timeout is None else min(max(0.0, timeout), threading.TIMEOUT_MAX)):
            raise pykka.Timeout(f"{timeout} seconds")
        self._gate.release()

    def _wake(self) -> None:
        self._gate.release()


class RunningActor(msgspec.Struct, Generic[A], frozen=True):
    """A started actor, and how to stop it."""

    ref: pykka.ActorRef[A]
    ended: Future[None]
    """Settled when the actor's loop has ended."""

    def ask_to_stop(self) -> None:
        """Let the actor stop after the messages that wait already; never blocks."""
        if not self.ref.actor_stopped.is_set():
            envelope: Any = pykka._envelope.Envelope(pykka.messages._ActorStop())
            self.ref.actor_inbox.put_urgent(envelope)  # type: ignore[attr-defined]

    def stop(self, seconds: float) -> bool:
        """Ask the actor to stop and wait; return False if it is still running after `seconds`.

        An actor that is late ends after the message that it handles.
        """
        self.ask_to_stop()
        try:
            self.ended.get(timeout=max(0.0, seconds))
        except pykka.Timeout:
            self.ref.actor_stopped.set()
            return False
        return True


class _Call(Actor):
    """An actor that calls the function that it receives, and stops."""

    def on_receive(self, message: Any) -> None:
        """Call the function."""
        message()
        self.stop()


class Runtime(ABC):
    """The runtime of actors: on threads (`Threads`), or on greenlets in virtual time (`beehive.simulation.Simulation`).

        runtime = Threads()
        running = runtime.start(Worker, settings, name="worker")
        version = runtime.call(client.version, name="version").get(timeout=5.0)

    It starts actors, makes queues and futures, and has a clock. The same code runs on both runtimes.
    """

    clock: Clock

    @abstractmethod
    def queue(self) -> Queue:
        """Make a queue for an inbox."""

    @abstractmethod
    def future(self) -> Future[Any]:
        """Make a future."""

    @abstractmethod
    def close(self) -> None:
        """End the runtime's own clock and threads; call it after its hives have stopped."""

    @abstractmethod
    def _spawn(self, function: Callable[[], None], name: str) -> None:
        """Run an actor's loop on a thread or greenlet of its own."""

    def call(self, function: Callable[[], T], *, name: str) -> Future[T]:
        """Call a function that may block, on an actor of its own.

        Args:
            function: called once, with the trace context of the caller.
            name: of the actor's thread, for logs and dumps.

        Returns:
            The future of the function's result or exception. An exception is not logged: the caller reads it from the
            future.
        """
        future: Future[T] = self.future()

        def settle() -> None:
            try:
                future.set(function())
            except FAILURES as error:
                future.fail(error)

        self.start(_Call, name=name).ref.tell(settle)
        return future

    def start(
        self,
        actor_class: type[A],
        *args: Any,
        name: str = "",
        inbox: Inbox | None = None,
        bindings: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> RunningActor[A]:
        """Start an actor.

        Each actor gets a subclass of its own, which holds its inbox, this runtime and `bindings` as class attributes.
        Instance attributes would not do, because pykka's `ActorRef.ask` calls `_create_future` on the class. The
        subclass is collected with the actor.

        Args:
            actor_class: the class of the actor; `args` and `kwargs` are passed to its constructor.
            name: of the actor's thread, for logs and dumps.
            inbox: an inbox that outlives the actor; without it the actor has its own.
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
        return RunningActor(bound.start(*args, **kwargs), ended)


class Threads(Runtime):
    """The runtime of production: an actor is a thread, the clock is the machine's."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock if clock is not None else RealClock()

    def queue(self) -> Queue:
        return queue.SimpleQueue()

    def future(self) -> Future[Any]:
        return ThreadFuture()

    def close(self) -> None:
        """End the clock's thread; its timers no longer fire."""
        self.clock.close()

    def _spawn(self, function: Callable[[], None], name: str) -> None:
        threading.Thread(target=function, name=name, daemon=True).start()

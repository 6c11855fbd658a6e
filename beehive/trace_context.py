"""The causes of messages, recorded without a field in the messages.

While a hive has taps, every delivery has a number, its span, and two others: its cause, which is the span during which
it was sent, and its trace, which is the first span of the chain of causes. Each actor's thread or greenlet has a
`TraceContext` with the present span: the actor's loop sets it before it handles an item, and the hive reads it when a
message is sent. Timers, continuations and messages to actors carry it along. So a trace connects the frame that brought
a pod with the status that went back, and KubeEdge's wire format is unchanged.

Spans are numbers, because drawing W3C ids for each message would cost more; `beehive.trace.format.traceparent` makes
W3C ids of them.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

NO_TURN: Final = -math.inf
"""When a turn began that is unknown."""


class TraceContext:
    """The present span and trace of a thread or greenlet; 0 is unknown."""

    __slots__ = ("actor", "began", "span", "trace", "wall")

    def __init__(self, actor: str = "") -> None:
        self.actor = actor
        """Name of the actor; empty outside of an actor."""
        self.span = 0
        self.trace = 0
        self.began = self.wall = NO_TURN
        """When the present turn of a module with a `TurnClock` began, by the monotonic and by the wall clock."""


class Cause(NamedTuple):
    """A span and its trace, kept as the cause of later spans."""

    span: int = 0
    trace: int = 0


NO_CAUSE = Cause()

_OUTSIDE = TraceContext()
"""The context of threads that are not actors; never changed."""

_context: ContextVar[TraceContext] = ContextVar("trace_context", default=_OUTSIDE)

current_context = _context.get
"""Returns the context of this thread or greenlet, to read."""


def new_context(actor: str) -> TraceContext:
    """Give this thread or greenlet a new context."""
    context = TraceContext(actor)
    _context.set(context)
    return context


def own_context() -> TraceContext:
    """Return the context of this thread or greenlet, to change."""
    context = current_context()
    return new_context("") if context is _OUTSIDE else context


def current_cause() -> Cause:
    """Return the present span and trace, as a cause for later."""
    context = current_context()
    return Cause(context.span, context.trace)


@contextmanager
def resumed(cause: Cause) -> Iterator[None]:
    """Run the block with `cause` as the present span and trace."""
    context = own_context()
    before = context.span, context.trace
    context.span, context.trace = cause
    try:
        yield
    finally:
        context.span, context.trace = before


@contextmanager
def acting_as(actor: str) -> Iterator[None]:
    """Run the block in a new context of that actor's name, on a thread that is not an actor."""
    token = _context.set(TraceContext(actor))
    try:
        yield
    finally:
        _context.reset(token)


def as_actor(name: str, loop: Callable[[], None]) -> Callable[[], None]:
    """Return a function that runs `loop` in a new context of that actor's name."""

    def run() -> None:
        new_context(name)
        loop()

    return run

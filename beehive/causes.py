"""What happens in the course of what: the causes of messages, without a word of them in the messages.

While a hive has taps, every delivery gets a number, its span, and remembers two more: the span in whose course it was
sent, its cause, and the first span of the chain, its trace. The course is kept in a `Turn`, one for each actor's thread
or greenlet; the actor's loop sets it before it handles something, and who sends reads it. Timers, continuations and
what actors tell each other carry it along. So a pod's whole way, from the frame that brought it to the status that went
back, hangs together, and KubeEdge's wire stays as it is.

Numbers and not W3C's ids, because they are drawn for each message; `beehive.trace.traceparent` makes the ids of them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class Turn:
    """What a thread or greenlet is at; 0 is nothing known."""

    __slots__ = ("actor", "span", "trace")

    def __init__(self, actor: str = "") -> None:
        self.actor = actor
        """Name of the actor, or empty outside of any."""
        self.span = 0
        self.trace = 0


class Cause(NamedTuple):
    """A place in the causes, kept for later."""

    span: int = 0
    trace: int = 0


NO_CAUSE = Cause()

_OUTSIDE = Turn()
"""What threads have that are no actors; never changed."""

_turn: ContextVar[Turn] = ContextVar("turn", default=_OUTSIDE)

current = _turn.get
"""The turn of this thread or greenlet, to look at."""


def begin(actor: str) -> Turn:
    """Give this thread or greenlet a turn of its own."""
    turn = Turn(actor)
    _turn.set(turn)
    return turn


def own() -> Turn:
    """The turn of this thread or greenlet, to change."""
    turn = current()
    return begin("") if turn is _OUTSIDE else turn


def here() -> Cause:
    """What happens now, as the cause of something that will happen later."""
    turn = current()
    return Cause(turn.span, turn.trace)


@contextmanager
def resumed(cause: Cause) -> Iterator[None]:
    """Act in the course of `cause` for a while."""
    turn = own()
    before = turn.span, turn.trace
    turn.span, turn.trace = cause
    try:
        yield
    finally:
        turn.span, turn.trace = before


@contextmanager
def acting_as(actor: str) -> Iterator[None]:
    """Have a turn of that name for a while: of a thread that is no actor and calls in somebody's name."""
    token = _turn.set(Turn(actor))
    try:
        yield
    finally:
        _turn.reset(token)


def as_actor(name: str, loop: Callable[[], None]) -> Callable[[], None]:
    """`loop`, run with a turn of that name."""

    def run() -> None:
        begin(name)
        loop()

    return run

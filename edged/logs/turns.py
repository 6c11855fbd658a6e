"""The order in which logs are read."""

from collections.abc import Iterator
from contextlib import contextmanager

from beehive.turns import Turns


class ReadingTurns:
    """Turns to read a log, one at a time; the others wait in their order. Thread-safe.

    Lines are read and selected by the interpreter, which every other thread of edgecore needs as well: with 32 readers
    at a time each of these would wait for tens of milliseconds at each of its steps.
    """

    def __init__(self) -> None:
        self._turns = Turns()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Have the turn in the context."""
        self._turns.acquire()
        try:
            yield
        finally:
            self._turns.release()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Be without the turn in the context, and have it again afterwards."""
        self._turns.release()
        try:
            yield
        finally:
            self._turns.acquire()

    def pass_on(self) -> None:
        """Let the waiting readers have their turns before this one goes on."""
        if self._turns.are_awaited:
            with self.pause():
                pass

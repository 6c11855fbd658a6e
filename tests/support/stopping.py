"""`with stopping(thing) as name:` for what has a `stop` and is no context manager, as `contextlib.closing` has it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar


class Stoppable(Protocol):
    """Something that is stopped at its end."""

    def stop(self) -> object:
        """End it."""


T = TypeVar("T", bound=Stoppable)


@contextmanager
def stopping(thing: T) -> Iterator[T]:
    """Stop it at the end, also after an error."""
    try:
        yield thing
    finally:
        thing.stop()

"""Undoes what a function has begun when it cannot finish it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def on_failure(undo: Callable[[], object]) -> Iterator[None]:
    """Call a function if the `with` statement ends by an exception: the `close` of what was opened, for instance."""
    try:
        yield
    except BaseException:
        undo()
        raise

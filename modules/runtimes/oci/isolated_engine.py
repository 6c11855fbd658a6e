"""The assembly of engines with isolated containers, as far as they have it in common."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from modules.runtimes.cri_server.errors import StateDirectoryError


@contextmanager
def closed_on_failure(close: Callable[[], None], root: Path) -> Iterator[None]:
    """Call `close` if the assembly of an engine in this context fails. Raises StateDirectoryError for an OSError."""
    try:
        yield
    except BaseException as error:
        close()
        if isinstance(error, OSError):
            raise StateDirectoryError(f'use the state directory "{root}"', str(error)) from error
        raise

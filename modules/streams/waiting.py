"""How a thread waits for the descriptors of its streams: with poll(2), or in the virtual time of a simulation."""

import select
from collections.abc import Callable
from typing import Protocol


class HasDescriptor(Protocol):
    """A file, a socket or a stream."""

    def fileno(self) -> int:
        """Return its descriptor."""


class Poll(Protocol):
    """The part of `select.poll` that streams need."""

    def register(self, fd: int | HasDescriptor, eventmask: int, /) -> None:
        """Wait for these events of a descriptor, too."""

    def poll(self, timeout: float | None, /) -> list[tuple[int, int]]:
        """Wait for so many milliseconds, or without end; return the descriptors that are ready, with their events."""


MakePoll = Callable[[], Poll]
"""Makes one for each wait."""


def new_poll() -> Poll:
    """Return the machine's."""
    return select.poll()

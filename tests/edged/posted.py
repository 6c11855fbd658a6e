"""A sync loop that only collects events."""

from typing import TypeVar

T = TypeVar("T")


class Posted(list[T]):
    """The events that a part has sent to the sync loop, in their order."""

    def handle(self, event: T) -> None:
        """Take an event."""
        self.append(event)

    def post(self, event: T) -> None:
        """Take an event."""
        self.append(event)

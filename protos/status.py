"""gRPC's statuses without its library, which takes 21 MB: most nodes with a process runtime never load it.

Who calls through the library translates its failures by their names, and who serves through it the other way round.
"""

from enum import Enum


class StatusCode(Enum):
    """The statuses of a call, with gRPC's names and numbers."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class CallError(Exception):
    """A call has failed; it is read as gRPC's own error."""

    def __init__(self, status: StatusCode, text: str) -> None:
        super().__init__(text)
        self._status = status
        self._text = text

    def code(self) -> StatusCode:
        """Return the status."""
        return self._status

    def details(self) -> str:
        """Return the text of who answered."""
        return self._text

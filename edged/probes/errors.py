"""What can go wrong when a container is asked something.

EdgedError
├── TargetError     the pod does not say what to ask, or whom: no such port, no address yet
└── NetworkError    asked over the network, and there was no good answer
"""

from edged.errors import EdgedError


class TargetError(EdgedError):
    """It cannot be asked; that says nothing about the container."""

    def __init__(self, on: str, hint: str) -> None:
        super().__init__("make out what to ask of a container", on, hint)


class NetworkError(EdgedError):
    """There was no answer, not in time, or one that is none. Counts against the container."""

    def __init__(self, attempt: str, on: str, hint: str = "") -> None:
        super().__init__(attempt, on, hint, retryable=True)

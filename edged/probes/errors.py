"""Errors of a probe.

EdgedError
├── TargetError     the pod does not define the target: no such port, no address yet
└── NetworkError    a probe over the network got no valid answer
"""

from edged.errors import EdgedError


class TargetError(EdgedError):
    """The probe has no target, which says nothing about the container."""

    def __init__(self, on: str, hint: str) -> None:
        super().__init__("make out what to ask of a container", on, hint)


class NetworkError(EdgedError):
    """No valid answer in time. Counts against the container."""

    def __init__(self, attempt: str, on: str, hint: str = "") -> None:
        super().__init__(attempt, on, hint, retryable=True)

"""Errors of an HTTP exchange."""

from beehive.errors import BeehiveError


class HttpError(BeehiveError):
    """The peer broke the protocol or a bound, or closed the connection in the middle.

    Args:
        status: HTTP status with which a server answers it.
        reason: phrase for the log.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__("read HTTP", hint=reason)
        self.status = status
        self.reason = reason

"""Errors of HTTP servers and clients.

BeehiveError
├── HttpError           the peer broke the protocol or a bound
└── HttpStatusError     the response to one request, with a status of 400 or more
"""

import re
from typing import Final

from beehive.errors import BeehiveError
from beehive.patterns import pattern

_QUOTED: Final = pattern(r":? (?:bytearray\()?b['\"].*", re.DOTALL)


class HttpError(BeehiveError):
    """The peer broke the protocol or a bound, or closed the connection in the middle.

    Args:
        status: HTTP status of the response.
        reason: phrase for the log.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__("read HTTP", hint=reason)
        self.status = status
        self.reason = reason


class HttpStatusError(BeehiveError):
    """A request that cannot be served; the text is the body of the response.

    Args:
        status: HTTP status.
        attempt: see `BeehiveError`.
        on: see `BeehiveError`.
        hint: see `BeehiveError`.
    """

    def __init__(self, status: int, attempt: str, on: str = "", hint: str = "") -> None:
        super().__init__(attempt, on, hint)
        self.status = status


def reason_of(error: Exception) -> str:
    """Return what is wrong with a message of HTTP, without the bytes that h11 quotes: they may be a credential, or
    64 KiB of the peer's.
    """
    return _QUOTED.sub("", str(error))

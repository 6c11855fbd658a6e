"""The request of a reflector that is under way, and the versions of API servers."""

from enum import Enum
from typing import Final

from modules.cloud.client.reflector.bodies import CollectedBody, Lines
from modules.cloud.client.transport import ResponseHead

_DIGITS: Final = 20
"""Digits of the largest version that is compared: 64 bits."""


class Step(Enum):
    """The next step of a reflector."""

    NOTHING = "nothing"
    LIST = "list"
    WATCH = "watch"


class RunningRequest:
    """A request that was sent, and the received part of its response.

    Args:
        number: tells its response from those of requests before.
        is_watch: whether it is a watch, or else a page of a list.
        started: when it was sent.
        token: the continue token of the requested page; "" for the first page.
        paged: whether the list comes in pages.
    """

    def __init__(self, number: int, *, is_watch: bool, started: float, token: str = "", paged: bool = True) -> None:
        self.number = number
        self.is_watch = is_watch
        self.started = started
        self.token = token
        self.paged = paged
        self.head: ResponseHead | None = None
        self.body = CollectedBody()
        self.lines = Lines()

    @property
    def is_accepted(self) -> bool:
        """Whether the server has answered with 200."""
        return self.head is not None and self.head.status == 200

    @property
    def is_refused(self) -> bool:
        """Whether the server has answered with another status than 200."""
        return self.head is not None and self.head.status != 200


def is_lower(version: str, than: str) -> bool:
    """Return whether a version went back; False where one of them is no number, as versions are opaque then."""
    return _is_number(version) and _is_number(than) and int(version) < int(than)


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdigit() and len(version) <= _DIGITS

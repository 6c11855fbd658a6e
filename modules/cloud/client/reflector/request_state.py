"""The request of a reflector that is under way, and the versions of API servers."""

from enum import Enum
from typing import Final

import msgspec

from beehive.whole_numbers import whole_number

_DIGITS: Final = 20
"""Digits of the largest version that is compared: 64 bits."""


class Step(Enum):
    """The next step of a reflector."""

    NOTHING = "nothing"
    LIST = "list"
    WATCH = "watch"


class RunningRequest(msgspec.Struct, frozen=True):
    """A request that was sent."""

    number: int
    """Tells its response from the responses to earlier requests."""
    is_watch: bool
    """Whether it is a watch, or else a page of a list."""
    started: float
    """When it was sent."""
    token: str = ""
    """The continue token of the requested page; "" for the first page."""
    paged: bool = True
    """Whether the list comes in pages."""


def is_lower(version: str, than: str) -> bool:
    """Return whether a version went back; False where one of them is no number, as versions are opaque then."""
    if len(version) == len(than) <= _DIGITS and version.isdecimal() and than.isdecimal() and (version + than).isascii():
        return version < than
    one, other = whole_number(version, _DIGITS), whole_number(than, _DIGITS)
    return one is not None and other is not None and one < other

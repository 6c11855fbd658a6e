"""Numbers of users and groups in text, such as the `USER` of an image."""

import re
from typing import Final

from beehive.patterns import pattern

LARGEST_ID: Final = (1 << 32) - 2
"""The last user and group of Linux; the next one means "unchanged"."""

_NUMBER: Final = pattern(r"[+-]?[0-9]+", re.ASCII)
_MOST_DIGITS: Final = 10


def is_number(text: str) -> bool:
    """Return whether a text is a number, whether or not Linux has it.

    Such a text never is the name of a user, whatever the image's files say. containerd decides in the same way
    (Go's strconv.Atoi): `+1000` and `01000` are 1000, digits of other scripts are letters.
    """
    return _NUMBER.fullmatch(text) is not None


def number_in(text: str) -> int | None:
    """Return the user or group of Linux whose number a text is; None for any other text."""
    if not is_number(text):
        return None
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) > _MOST_DIGITS or int(digits) > LARGEST_ID or (text.startswith("-") and digits != "0"):
        return None
    return int(digits)

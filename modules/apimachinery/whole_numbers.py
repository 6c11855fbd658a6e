"""Whole numbers in texts that anybody may write: annotations, names, percentages."""

from typing import Final

_MOST_DIGITS: Final = 18
"""Digits of a number, as an int64 has; Python refuses to read more than 4,300 with an error."""


def whole_number(text: object) -> int | None:
    """Return the number that a text of up to 18 ASCII digits stands for; None for anything else."""
    if not isinstance(text, str) or not (text.isascii() and text.isdecimal()) or len(text) > _MOST_DIGITS:
        return None
    return int(text)

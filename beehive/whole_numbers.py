"""Whole numbers in texts that anybody may write: annotations, names, percentages, versions of objects."""

from typing import Final

_LARGEST: Final = 2**63 - 1
_MOST_DIGITS: Final = len(str(_LARGEST))
"""Python refuses to read more than 4,300 with an error."""


def whole_number(text: object, most_digits: int = _MOST_DIGITS) -> int | None:
    """Return the number that a text of a few ASCII digits stands for; None for anything else, and by default for what
    no int64 holds.

    `str.isdigit` and `str.isdecimal` also accept digits that `int` refuses (`²`) or other scripts' (`٣`).
    """
    if not isinstance(text, str) or not (text.isascii() and text.isdecimal()) or len(text) > most_digits:
        return None
    number = int(text)
    return None if most_digits == _MOST_DIGITS and number > _LARGEST else number

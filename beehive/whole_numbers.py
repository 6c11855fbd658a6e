"""Whole numbers in texts that anybody may write: annotations, names, percentages, versions of objects."""

from typing import Final

_MOST_DIGITS: Final = 18
"""Digits of a number, as an int64 has; Python refuses to read more than 4,300 with an error."""


def whole_number(text: object, most_digits: int = _MOST_DIGITS) -> int | None:
    """Return the number that a text of a few ASCII digits stands for; None for anything else.

    `str.isdigit` and `str.isdecimal` also accept digits that `int` refuses (`²`) or other scripts' (`٣`).
    """
    if not isinstance(text, str) or not (text.isascii() and text.isdecimal()) or len(text) > most_digits:
        return None
    return int(text)

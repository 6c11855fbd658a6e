"""Numbers at the ends of files' names, which keep the order in which the files were made.

A time in a name does not: two files are made within one tick of the clock, and a board without a battery begins in 1970
after a loss of power.
"""

import re
from collections.abc import Iterable
from typing import Final

from beehive.patterns import pattern

_NUMBER: Final = pattern(r".*\.([0-9]{1,18})", re.DOTALL)


def number_of(name: str) -> int:
    """Return the number after the last dot of a name; 0 for a name without one, such as an earlier version's."""
    match = _NUMBER.fullmatch(name)
    return int(match[1]) if match else 0


def next_number(names: Iterable[str]) -> int:
    """Return the number that follows those of all names."""
    return 1 + max(map(number_of, names), default=0)

"""Regular expressions that are compiled with their first use.

A node's start loads some ninety, for names, times, quantities and answers of others, and uses a fifth of them:
compiling the rest took a fortieth of its processor time. Modules that commands load without the bus compile theirs at
once.
"""

import re
from typing import Any, AnyStr, cast


def pattern(text: AnyStr, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[AnyStr]:
    """Return a regular expression for a constant of a module.

    It has a pattern's methods and attributes; only functions of `re` that take a pattern do not take it.
    `tests/beehive/test_patterns.py` compiles all of them.
    """
    return cast("re.Pattern[AnyStr]", _Pattern(text, flags))


class _Pattern:
    """A pattern that is compiled when something of it is used; what has been used once is an attribute of its own."""

    def __init__(self, text: str | bytes, flags: re.RegexFlag) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found

"""Regular expressions that are compiled with their first use.

A node's start loads some ninety, for names, times, quantities and answers of others, and uses a fifth of them:
compiling the rest took a fortieth of its processor time. Modules that commands load without the bus compile theirs at
once.
"""

import re
from collections.abc import Iterator
from typing import Any, AnyStr, Protocol, cast


class Pattern(Protocol[AnyStr]):
    """A compiled regular expression, as far as the project uses one: `re.Pattern`, or one that is compiled later.

    Functions of `re` take only the former.
    """

    @property
    def pattern(self) -> AnyStr: ...

    def fullmatch(self, string: AnyStr, pos: int = 0) -> re.Match[AnyStr] | None: ...

    def match(self, string: AnyStr, pos: int = 0) -> re.Match[AnyStr] | None: ...

    def search(self, string: AnyStr, pos: int = 0) -> re.Match[AnyStr] | None: ...

    def findall(self, string: AnyStr) -> list[Any]: ...

    def finditer(self, string: AnyStr) -> Iterator[re.Match[AnyStr]]: ...

    def sub(self, repl: Any, string: AnyStr) -> AnyStr: ...


def pattern(text: AnyStr, flags: re.RegexFlag = re.NOFLAG) -> Pattern[AnyStr]:
    """Return a regular expression for a constant of a module. `tests/beehive/test_patterns.py` compiles all of them."""
    return cast("Pattern[AnyStr]", _Pattern(text, flags))


class _Pattern:
    """A pattern that is compiled when something of it is used; what has been used once is an attribute of its own."""

    def __init__(self, text: str | bytes, flags: re.RegexFlag) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found

"""Makes text from outside safe to print: in a log, an error, a table, a terminal.

Text of a node, a pod or a manifest may hold escape sequences that move a terminal's cursor or set its title, line
breaks that forge lines of a log, marks that reverse the direction of writing (CVE-2021-25743, CVE-2021-42574), and
characters that are not seen, by which two texts look alike or one has a hidden part (Unicode TR 36, and the property
Default_Ignorable_Code_Point). These characters are escaped as in a Python string (`\\x1b`); all others stay, with them
the variation selectors, which emoji and names in Japanese have.
"""

import re
from typing import Final

from beehive.patterns import pattern

CLIPPED: Final = 200
"""Characters that one value from outside may have in a log line or an error."""

_CHARACTERS: Final = (
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff"
    "\U000e01f0-\U000e0fff]"
)
"""The page has the same list (`words.js`)."""
UNSAFE = pattern(_CHARACTERS)
_UNSAFE_IN_LINES = pattern(_CHARACTERS.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))


def printable(text: str) -> str:
    """Return the text on one line, without characters that control a terminal."""
    return UNSAFE.sub(_escaped, text)


def printable_lines(text: str) -> str:
    """Return the text without characters that control a terminal, except line breaks and tabs."""
    return _UNSAFE_IN_LINES.sub(_escaped, text)


def clipped(text: str, limit: int = CLIPPED) -> str:
    """Return the text on one line, cut after `limit` characters, before these are escaped, with its length appended."""
    if len(text) <= limit:
        return printable(text)
    return f"{printable(text[:limit])}... ({len(text)} characters)"


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")

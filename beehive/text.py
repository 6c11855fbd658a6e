"""Foreign text made fit to be shown: in a log, an error, a table, a terminal.

What a node, a pod or a manifest chooses may hold escape sequences that move a terminal's cursor or set its title, line
breaks that forge lines of a log, and marks that reverse the direction of writing (CVE-2021-25743, CVE-2021-42574). All
of these are shown as Python would write them in a string (`\\x1b`); other text is as it was.
"""

import re
from typing import Final

CLIPPED: Final = 200
"""Characters of one foreign value in a log line or an error."""

UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSAFE_IN_LINES = re.compile(UNSAFE.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))


def printable(text: str) -> str:
    """The text on one line, with nothing in it that a terminal obeys."""
    return UNSAFE.sub(_escaped, text)


def printable_lines(text: str) -> str:
    """Likewise, but line breaks and tabs stay."""
    return _UNSAFE_IN_LINES.sub(_escaped, text)


def clipped(text: str, limit: int = CLIPPED) -> str:
    """The text on one line, of so many characters at most, before they are escaped; says how many there were."""
    if len(text) <= limit:
        return printable(text)
    return f"{printable(text[:limit])}... ({len(text)} characters)"


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")

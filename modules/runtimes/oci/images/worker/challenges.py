"""`WWW-Authenticate` of a registry (RFC 9110): several challenges in one header, quoted strings with escapes."""

import re
from typing import Final, NamedTuple

_WORD: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_PARAMETER: Final = rf'({_WORD})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|({_WORD}))'
_PART: Final = re.compile(rf"\s*,?\s*(?:{_PARAMETER}|({_WORD})(?=\s|$|,))", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_LONGEST: Final = 16 * 1024


class Challenge(NamedTuple):
    """One way in which a server lets a client in."""

    scheme: str
    """In lower case: `bearer`, `basic`."""
    parameters: dict[str, str]


def parse_challenges(header: str) -> list[Challenge]:
    """Return the challenges of a header, as far as it can be read."""
    found: list[Challenge] = []
    at = 0
    text = header[:_LONGEST]
    while (part := _PART.match(text, at)) is not None and part.end() > at:
        at = part.end()
        key, quoted, plain, scheme = part.groups()
        if scheme is not None:
            found.append(Challenge(scheme.lower(), {}))
        elif found:
            value = plain if quoted is None else _ESCAPE.sub(r"\1", quoted)
            found[-1].parameters.setdefault(key.lower(), value)
    return found

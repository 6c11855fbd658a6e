"""Paths that come from requests: absolute, without "..", and no longer than Linux takes them."""

from collections.abc import Set
from typing import Final

from beehive.patterns import pattern
from modules.runtimes.engine.errors import BadRequestError

_LONGEST: Final = 4095
"""Bytes (PATH_MAX)."""
_LONGEST_NAME: Final = 255
_DEEPEST: Final = 64
"""Most components of a path: the work on a path grows with the square of their number."""
_PLAIN: Final = pattern(rf"(?:/[^/.\0][^/\0]*){{0,{_DEEPEST}}}/?")
"""Paths that need no further look if they are short, as most do: a container has thirty."""


def checked_path(attempt: str, path: str, what: str) -> str:
    """Return the path without doubled slashes and dots. Raises BadRequestError, which names it as `what`."""
    if 0 < len(path) <= _LONGEST_NAME and path.isascii() and _PLAIN.fullmatch(path):
        return path.rstrip("/") or "/"
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not path.startswith("/") or ".." in parts:
        raise BadRequestError(attempt, f'{what} "{path[:200]}" is not absolute or has ".."')
    if len(parts) > _DEEPEST:
        raise BadRequestError(attempt, f'{what} "{path[:60]}…" is deeper than {_DEEPEST} directories')
    if "\0" in path or len(path.encode()) > _LONGEST or any(len(part.encode()) > _LONGEST_NAME for part in parts):
        raise BadRequestError(attempt, f'{what} "{path[:60]!r}…" is too long or has a NUL character')
    return "/" + "/".join(parts)


def is_below_any(path: str, tops: Set[str]) -> bool:
    """Return whether `path` is inside one of `tops`, however many they are."""
    at = path.rfind("/")
    while at > 0:
        if path[:at] in tops:
            return True
        at = path.rfind("/", 0, at)
    return False

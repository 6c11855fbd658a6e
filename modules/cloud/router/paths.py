"""Paths of callers: exact, part by part. Pure.

A rule's path such as `/door/{id}/open` has literal parts and parts in braces. Each part in braces stands for any one
part. The path matches from its beginning, and never ends in the middle of a part; the rest of the caller's path is
passed on, as by KubeEdge.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import quote, unquote_to_bytes

_KEPT: Final = "-._~!$&'()*,:;=@"
"""Characters that a part keeps beside letters and digits: no wildcard of MQTT."""
_MOST_PARTS: Final = 64
_LONGEST: Final = 4096
LONGEST_QUERY: Final = 8192
_ANY: Final = "{}"


class CallerPath(NamedTuple):
    """The path of a request: `/NODE/NAMESPACE/PATH…`, without anything that could mean another one."""

    node: str
    namespace: str
    parts: tuple[str, ...]
    """Decoded."""
    tail: str
    """A slash at the end, and the query with its question mark."""

    @property
    def target(self) -> str:
        """The path with its query as a request has it."""
        return "".join(f"/{quote(part, safe=_KEPT)}" for part in (self.node, self.namespace)) + self.rest(0)

    def rest(self, matched: int) -> str:
        """Return the parts after the first ones, quoted, with the tail."""
        return "".join(f"/{quote(part, safe=_KEPT)}" for part in self.parts[matched:]) + self.tail


class PathPattern(NamedTuple):
    """A rule's path."""

    parts: tuple[str, ...]

    @property
    def rank(self) -> tuple[int, int]:
        """The higher of two that match wins: more parts, then more literal ones."""
        return len(self.parts), sum(not _is_any(part) for part in self.parts)

    @property
    def matched(self) -> tuple[str, ...]:
        """The parts with those in braces alike: two patterns with the same match the same paths."""
        return tuple(_ANY if _is_any(part) else part for part in self.parts)

    def matches(self, parts: Sequence[str]) -> bool:
        """Return whether the parts of a path begin with this."""
        return len(parts) >= len(self.parts) and all(
            _is_any(wanted) or wanted == part for wanted, part in zip(self.parts, parts, strict=False)
        )


def read_path(target: str) -> CallerPath | None:
    """Return the path of a request; None if it is no plain path of a node: with `..`, an empty part, a quoted
    slash, or with too little or too much in it.
    """
    path, mark, query = target.partition("?")
    if len(path) > _LONGEST or len(query) > LONGEST_QUERY or not path.startswith("/"):
        return None
    whole = path.removesuffix("/")
    parts = tuple(_decoded(part) for part in whole[1:].split("/"))
    if not 3 <= len(parts) <= _MOST_PARTS or "" in parts:
        return None
    return CallerPath(parts[0], parts[1], parts[2:], path[len(whole) :] + mark + query)


def read_pattern(path: str) -> PathPattern | None:
    """Return a rule's path; None if no request can have it."""
    parts = tuple(path.strip("/").split("/"))
    if len(path) > _LONGEST or len(parts) > _MOST_PARTS - 2 or any(not _is_plain(part) for part in parts):
        return None
    return PathPattern(parts)


def _decoded(raw: str) -> str:
    """Return a part, or "" if it is malformed."""
    try:
        part = unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        return ""
    return part if _is_plain(part) else ""


def _is_plain(part: str) -> bool:
    return bool(part) and part not in (".", "..") and "/" not in part and "\\" not in part and part.isprintable()


def _is_any(part: str) -> bool:
    return part.startswith("{") and part.endswith("}")

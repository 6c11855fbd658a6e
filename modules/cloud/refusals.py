"""Counters and log lines of refused requests of nodes."""

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from beehive.rate import TokenBucket

if TYPE_CHECKING:
    from beehive.clock import Clock

_log = logging.getLogger(__name__)

_LINES_A_SECOND: Final = 0.1
_BURST: Final = 10
_NODES: Final = 1000
"""Maximum of nodes with their own log rate; above it, all rates start again."""
_LONGEST: Final = 300
"""Characters of a refusal in the log."""


class Refusals:
    """The refused requests, counted by reason and kind, and logged: per node ten at once, then one in ten seconds, so
    that a hostile node's hundred thousand requests make few lines.

    Args:
        clock: for the rate of the lines.
    """

    def __init__(self, clock: "Clock") -> None:
        self._clock = clock
        self._of: dict[str, _Node] = {}
        self.counts: Counter[tuple[str, str]] = Counter()
        """By reason and kind of object, both from closed sets."""

    def record(self, node: str, reason: str, kind: str, text: str) -> None:
        """Count and log a refusal.

        Args:
            node: the node that made the request.
            reason: from a closed set.
            kind: the kind of object, from a closed set.
            text: for the log; may contain text from the node.
        """
        self.counts[reason, kind] += 1
        of = self._of.get(node)
        if of is None:
            if len(self._of) >= _NODES:
                self._of.clear()
            of = self._of[node] = _Node()
        if of.bucket.reserve(self._clock.monotonic()):
            of.silent += 1
            return
        more = f" ({of.silent} more of this node since the last line)" if of.silent else ""
        of.silent = 0
        about = ascii(text.strip()[:_LONGEST])[1:-1]
        _log.warning("node %s: refused: %s%s", node, f"{reason}: {about}" if about else reason, more)


class _Node:
    """The log rate of one node."""

    def __init__(self) -> None:
        self.bucket = TokenBucket(_LINES_A_SECOND, _BURST)
        self.silent = 0

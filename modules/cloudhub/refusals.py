"""What nodes are refused: counted by reason and kind, and logged, a hostile node's hundred thousand in a few lines."""

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
"""So many have a rate of their own; then all begin anew."""
_LONGEST: Final = 300
"""Characters of what is said of one."""


class Refusals:
    """Counts refusals of nodes and logs them, ten of a node at once and then one in ten seconds.

    Args:
        clock: the lines' rate.
    """

    def __init__(self, clock: "Clock") -> None:
        self._clock = clock
        self._of: dict[str, _Node] = {}
        self.counts: Counter[tuple[str, str]] = Counter()
        """By reason and kind of object; both from closed sets."""

    def note(self, node: str, reason: str, kind: str, text: str) -> None:
        """Takes down a refusal.

        Args:
            node: whose request it was.
            reason: of a closed set.
            kind: likewise.
            text: for the log; may hold what the node wrote.
        """
        self.counts[reason, kind] += 1
        of = self._of.get(node)
        if of is None:
            if len(self._of) >= _NODES:
                self._of.clear()
            of = self._of[node] = _Node()
        if of.bucket.take(self._clock.monotonic()):
            of.silent += 1
            return
        more = f" ({of.silent} more of this node since the last line)" if of.silent else ""
        of.silent = 0
        _log.warning("node %s: refused: %s%s", node, ascii(text[:_LONGEST])[1:-1], more)


class _Node:
    """One node's rate of lines."""

    def __init__(self) -> None:
        self.bucket = TokenBucket(_LINES_A_SECOND, _BURST)
        self.silent = 0

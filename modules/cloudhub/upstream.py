"""How many of a node's messages the controllers have at a time: few, so that their inboxes are no node's alone.

What is beyond that waits here, in the node's order, until a controller has said that it has handled some. A controller
that fails, or that has no handler for a message, says nothing; after a while it is no longer waited for.
"""

from collections import Counter, deque
from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")

MESSAGES = 16
"""Messages of one node that controllers have at a time."""
BYTES = 64 * 1024
"""Bytes of them; a larger one is alone."""
PATIENCE = 5.0
"""Seconds after which a message counts as handled."""
_HELD = 4096
"""Messages that wait for one node; each connection brings few, so that is one which connects again and again."""


class _Passed(msgspec.Struct):
    size: int
    at: float


class _Node(Generic[T]):
    def __init__(self) -> None:
        self.passed: deque[_Passed] = deque()
        self.bytes = 0
        self.held: deque[tuple[T, int]] = deque()


class Upstream(Generic[T]):
    """The messages of all nodes, on their way to controllers.

    Args:
        messages: of one node at a time.
        limit: bytes of them.
    """

    def __init__(self, messages: int = MESSAGES, limit: int = BYTES) -> None:
        self._messages = messages
        self._limit = limit
        self._nodes: dict[str, _Node[T]] = {}
        self.counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._nodes)

    def offer(self, node: str, item: T, size: int, now: float) -> Iterator[T]:
        """Takes a message; gives those that are to go on now."""
        state = self._nodes.setdefault(node, _Node())
        if len(state.held) < _HELD:
            state.held.append((item, size))
        else:
            self.counts["too many wait"] += 1
        yield from self._go_on(node, now)

    def handled(self, node: str, count: int, now: float) -> Iterator[T]:
        """Controllers have handled so many messages of a node; gives those that are to go on now."""
        state = self._nodes.get(node)
        if state is not None:
            for _ in range(min(count, len(state.passed))):
                state.bytes -= state.passed.popleft().size
            yield from self._go_on(node, now)

    def look(self, now: float) -> Iterator[tuple[str, T]]:
        """Gives up waiting for what has taken too long; gives those messages, with their nodes, that are to go on."""
        for node, state in list(self._nodes.items()):
            while state.passed and now - state.passed[0].at >= PATIENCE:
                state.bytes -= state.passed.popleft().size
            for item in self._go_on(node, now):
                yield node, item

    def _go_on(self, node: str, now: float) -> Iterator[T]:
        state = self._nodes[node]
        while state.held and self._has_room(state, state.held[0][1]):
            item, size = state.held.popleft()
            state.passed.append(_Passed(size, now))
            state.bytes += size
            yield item
        if not state.passed:
            del self._nodes[node]

    def _has_room(self, state: _Node[T], size: int) -> bool:
        return not state.passed or (len(state.passed) < self._messages and state.bytes + size <= self._limit)

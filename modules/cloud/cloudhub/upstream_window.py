"""The window of unhandled upstream messages of each node."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")

MAX_MESSAGES = 16
"""Unhandled messages of one node."""
MAX_BYTES = 64 * 1024
"""Bytes of the unhandled messages of one node; a larger message passes alone."""
HANDLED_TIMEOUT = 5.0
"""Seconds after which a message counts as handled."""
_HELD = 4096
"""Waiting messages of one node that are too many. Each connection brings few; a node reaches this only by connecting
repeatedly.
"""


class _Passed(msgspec.Struct):
    size: int
    at: float
    id: str


class _Node(msgspec.Struct, Generic[T], eq=False):
    passed: deque[_Passed] = msgspec.field(default_factory=deque)
    bytes: int = 0
    held: deque[tuple[T, int, str]] = msgspec.field(default_factory=deque)


class UpstreamWindow(Generic[T]):
    """The messages of each node that are with the controllers: few at a time, so that no node fills their inboxes.

    Further messages wait here in the node's order until a controller answers earlier ones, or reports them as handled.
    A controller that fails, or has no handler for a message, does neither; its messages count as handled after
    `HANDLED_TIMEOUT`.

    Args:
        messages: maximum of unhandled messages of one node.
        limit: maximum of their bytes.
    """

    def __init__(self, messages: int = MAX_MESSAGES, limit: int = MAX_BYTES) -> None:
        self._messages = messages
        self._limit = limit
        self._nodes: dict[str, _Node[T]] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def offer(self, node: str, item: T, size: int, now: float, message_id: str = "") -> Iterable[T]:
        """Queue a message, and return the messages to pass on now."""
        state = self._nodes.get(node)
        if state is None:
            state = self._nodes[node] = _Node()
            state.passed.append(_Passed(size, now, message_id))
            state.bytes = size
            return (item,)
        state.held.append((item, size, message_id))
        return self._release(node, now)

    def is_full(self, node: str) -> bool:
        """Return whether too many messages of a node wait to offer another one."""
        state = self._nodes.get(node)
        return state is not None and len(state.held) >= _HELD

    def is_idle(self, node: str) -> bool:
        """Return whether no message of a node is unhandled."""
        return node not in self._nodes

    def answered(self, node: str, message_id: str, now: float) -> Iterable[T]:
        """Count the message of a node that is answered as handled, and return the messages to pass on now."""
        state = self._nodes.get(node)
        if state is None:
            return ()
        for place, passed in enumerate(state.passed):
            if passed.id == message_id:
                del state.passed[place]
                state.bytes -= passed.size
                if state.held:
                    return self._release(node, now)
                if not state.passed:
                    del self._nodes[node]
                break
        return ()

    def handled(self, node: str, count: int, now: float) -> Iterator[T]:
        """Count messages of a node as handled, and yield the messages to pass on now."""
        state = self._nodes.get(node)
        if state is not None:
            for _ in range(min(count, len(state.passed))):
                state.bytes -= state.passed.popleft().size
            yield from self._release(node, now)

    def expire(self, now: float) -> Iterator[tuple[str, T]]:
        """Count messages as handled after their timeout, and yields nodes and messages to pass on now."""
        for node, state in list(self._nodes.items()):
            while state.passed and now - state.passed[0].at >= HANDLED_TIMEOUT:
                state.bytes -= state.passed.popleft().size
            for item in self._release(node, now):
                yield node, item

    def _release(self, node: str, now: float) -> Iterator[T]:
        state = self._nodes[node]
        while state.held and self._has_room(state, state.held[0][1]):
            item, size, message_id = state.held.popleft()
            state.passed.append(_Passed(size, now, message_id))
            state.bytes += size
            yield item
        if not state.passed:
            del self._nodes[node]

    def _has_room(self, state: _Node[T], size: int) -> bool:
        return not state.passed or (len(state.passed) < self._messages and state.bytes + size <= self._limit)

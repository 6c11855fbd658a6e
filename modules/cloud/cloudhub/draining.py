"""The end of all connections before cloudcore stops, a few at a time."""

from collections.abc import Callable, Iterable
from typing import Final

_RATE: Final = 100.0
"""Connections that are ended in a second, so that few nodes connect elsewhere at the same time."""
_SPREAD: Final = 0.5
"""Part of the time to begin the end of every connection, however many there are."""


class Draining:
    """The choice of the connections to end now. One over which requests wait for their answers is ended when they are
    answered, or when the time is over.

    Args:
        nodes: the connected nodes.
        now: monotonic seconds.
        seconds: after which all connections are to be ended.
    """

    def __init__(self, nodes: Iterable[str], now: float, seconds: float) -> None:
        order = list(nodes)
        step = min(1 / _RATE, seconds * _SPREAD / max(1, len(order)))
        self._begins_at = {node: now + step * number for number, node in enumerate(order)}
        self._deadline = now + seconds

    def due(self, connected: Iterable[str], now: float, is_answered: Callable[[str], bool]) -> list[str]:
        """Return the nodes whose connections are to be ended, also of nodes that have connected since the drain began.

        Args:
            connected: the nodes that are connected.
            now: monotonic seconds.
            is_answered: whether no request of a node waits for its answer.
        """
        is_over = now >= self._deadline
        begun = [node for node in connected if now >= self._begins_at.get(node, now)]
        return [node for node in begun if is_over or is_answered(node)]

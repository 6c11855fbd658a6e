"""The same question to many nodes over their tunnels, such as for their statistics; one thread reads all answers."""

import logging
import select
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from beehive.clock import Clock
from modules.cloud.cloudstream.errors import TunnelError
from modules.cloud.cloudstream.stream import TunnelStream
from modules.cloud.cloudstream.tunnels import Tunnels
from modules.streams.connect import ConnectError, StreamRequest
from modules.streams.frames import FrameType

_log = logging.getLogger(__name__)

AT_ONCE: Final = 32
"""Nodes that are asked at a time."""
NODE_SECONDS: Final = 5.0
"""For the whole answer of a node."""
ALL_SECONDS: Final = 20.0
"""For all answers; nodes that were not asked by then are left out."""
ANSWER_BYTES: Final = 1024 * 1024
"""The longest answer: the statistics of 110 pods have about 150 kB."""


class _Answer:
    """The part of a node's answer that has come so far."""

    def __init__(self, node: str, stream: TunnelStream, deadline: float) -> None:
        self.node = node
        self.stream = stream
        self.deadline = deadline
        self._parts: list[bytes] = []
        self._size = 0

    def read(self, now: float) -> bool:
        """Take the received bytes, and return whether to wait for more."""
        while data := self.stream.take(now):
            self._parts.append(data)
            self._size += len(data)
            if self._size > ANSWER_BYTES:
                _log.warning("node %s: its answer has more than %d bytes", self.node, ANSWER_BYTES)
                return False
        return not self.stream.is_over and now < self.deadline

    def whole(self) -> bytes | None:
        """Return the answer if it is one."""
        if self._size > ANSWER_BYTES or not self.stream.is_over or self.stream.failure:
            return None
        return b"".join(self._parts)


class Gathering:
    """Asks nodes for a path of their server. On the calling thread, which it keeps for `ALL_SECONDS` at most.

    Args:
        tunnels: of all nodes.
        clock: for the deadlines.
        target: path and query.
        took: called with the name and the answer of each node that answers.
    """

    def __init__(self, tunnels: Tunnels, clock: Clock, target: str, took: Callable[[str, bytes], object]) -> None:
        self._tunnels = tunnels
        self._clock = clock
        self._target = target
        self._took = took
        self._poll = select.poll()
        self._open: dict[int, _Answer] = {}
        self._late: list[str] = []

    def run(self, nodes: Iterable[str]) -> list[str]:
        """Ask these nodes, and return those that did not answer in time; nodes without a tunnel here are left out."""
        waiting = deque(node for node in nodes if self._tunnels.has(node))
        end = self._clock.monotonic() + ALL_SECONDS
        try:
            while (waiting or self._open) and self._clock.monotonic() < end:
                while waiting and len(self._open) < AT_ONCE:
                    self._ask(waiting.popleft())
                self._hear(end)
        finally:
            for descriptor in list(self._open):
                self._close(descriptor)
        return self._late

    def _ask(self, node: str) -> None:
        try:
            stream = self._tunnels.open(node, FrameType.METRICS, StreamRequest(0, self._target))
        except (TunnelError, ConnectError) as error:
            _log.info("node %s is not asked for %s: %s", node, self._target, error)
            return
        self._open[stream.fileno()] = _Answer(node, stream, self._clock.monotonic() + NODE_SECONDS)
        self._poll.register(stream, select.POLLIN)

    def _hear(self, end: float) -> None:
        """Wait for the next words, and read them."""
        if not self._open:
            return
        first = min(end, *(answer.deadline for answer in self._open.values()))
        self._poll.poll(max(0.0, first - self._clock.monotonic()) * 1000 + 1)
        now = self._clock.monotonic()
        for descriptor, answer in list(self._open.items()):
            if not answer.read(now):
                whole = answer.whole()
                self._close(descriptor)
                if whole is not None:
                    self._took(answer.node, whole)

    def _close(self, descriptor: int) -> None:
        answer = self._open.pop(descriptor)
        if not answer.stream.is_over:
            self._late.append(answer.node)
        self._poll.unregister(descriptor)
        answer.stream.close()

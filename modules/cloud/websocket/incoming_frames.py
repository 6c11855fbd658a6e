"""The received frames that wait to be delivered to cloudhub."""

import heapq
import itertools
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

from beehive.codec import decode
from beehive.errors import FrameError
from beehive.names import Operation
from modules.cloud.websocket.connection import WebsocketConnection
from modules.cloud.websocket.message_budget import MessageBudget

_FRAME_COST: Final = 512
"""Fixed cost of a frame, in bytes, for the time it takes beside its bytes."""
_PORTION: Final = 1024 * 1024
"""Cost of the frames decoded between two polls of the sockets, so that newly received frames get their share."""
_UNCHECKED: Final = 16
"""Frames that are delivered between two looks whether the inboxes are full."""
_KEEPALIVE: Final = b'"keepalive"'
_KEEPALIVE_BYTES: Final = 1024
_KEEPALIVE_PERIOD: Final = 1.0
"""Seconds between two keepalives of a node that are delivered out of order."""

T = TypeVar("T")


class FairShare(Generic[T]):
    """A queue whose members are served in equal shares of cost (start-time fair queueing).

    Each service advances a member's virtual time by its cost; the member with the earliest time is next. A member that
    joins starts at the present time. So the first frame of a node waits for at most one frame of each other node,
    however much these have sent. Every operation takes logarithmic time.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._waiting: set[T] = set()
        self._reached: dict[T, float] = {}
        """Virtual times of members that were served and are ahead of the others."""
        self._now = 0.0
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, member: T) -> None:
        """Queue a member, unless it is queued already."""
        if member not in self._waiting:
            self._waiting.add(member)
            begin = max(self._now, self._reached.pop(member, 0.0))
            heapq.heappush(self._heap, (begin, next(self._numbers), member))

    def take(self) -> T | None:
        """Remove and return the next member, or None; `charge` takes the cost of its service."""
        while self._heap:
            begin, _, member = heapq.heappop(self._heap)
            if member in self._waiting:
                self._waiting.remove(member)
                self._now = max(self._now, begin)
                self._reached[member] = begin
                return member
        self._reached.clear()  # no member waits, so none is ahead
        return None

    def charge(self, member: T, cost: float) -> None:
        """Advance the virtual time of a member that was served."""
        if member not in self._waiting:
            self._reached[member] = self._reached.get(member, self._now) + cost

    def forget(self, member: T) -> None:
        """Remove a member."""
        self._waiting.discard(member)
        self._reached.pop(member, None)


class IncomingFrames:
    """The received frames of all connections, delivered to cloudhub in fair shares; for the server's thread.

    While the inboxes of cloudhub or edgecontroller are full, only keepalives are delivered, as they always are, before
    the older frames of their connections. The other frames wait here, and then in the sockets, which are not read.
    The bytes of large messages have a budget (`MessageBudget`), complete or not.

    Args:
        deliver: delivers a frame of a connection to cloudhub.
        is_full: whether the inboxes are full.
        most_bytes: of large messages of all connections.
    """

    def __init__(
        self, deliver: Callable[[WebsocketConnection, bytes], None], is_full: Callable[[], bool], most_bytes: int
    ) -> None:
        self._deliver = deliver
        self._is_full = is_full
        self._waiting: FairShare[WebsocketConnection] = FairShare()
        self._budget: MessageBudget[WebsocketConnection] = MessageBudget(most_bytes)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def keep(self, connection: WebsocketConnection, frame: bytes, now: float) -> None:
        """Queues a received frame. A keepalive is delivered now, at most one per second and connection."""
        connection.keep(frame)
        self._budget.finish(connection)
        if not _is_keepalive(frame):
            return
        connection.pass_last()
        if now - connection.alive_at >= _KEEPALIVE_PERIOD:
            connection.alive_at = now
            self._deliver(connection, frame)
        else:
            connection.link.handled(len(frame))

    def count(self, connection: WebsocketConnection, now: float) -> bool:
        """Count the bytes of the connection's messages, and return whether they are within the budget."""
        return self._budget.keep(connection, connection.unfinished_bytes, connection.unread_bytes, now)

    def resumable(self) -> list[WebsocketConnection]:
        """Return the connections that were not read because of the budget, and may be now."""
        return self._budget.resumable()

    def overdue(self, now: float) -> Iterator[WebsocketConnection]:
        """Yield the connections to end because of their unfinished messages; the caller calls `end` with each."""
        return self._budget.overdue(now)

    def update(self, connection: WebsocketConnection, now: float) -> bool:
        """Queues the connection if it has a frame to deliver, and returns whether its socket may be read."""
        if connection.has_to_pass:
            self._waiting.add(connection)
        self.count(connection, now)
        may_be_read = self._budget.may_grow(connection) and connection.may_be_read
        connection.link.is_held_back = bool(connection.unread) or not may_be_read
        return may_be_read

    def dispatch(self, delivered: Callable[[WebsocketConnection], None]) -> None:
        """Delivers a portion of the waiting frames in fair shares; none while the inboxes are full.

        Args:
            delivered: called with each connection of delivered frames.
        """
        cost = 0
        served: dict[WebsocketConnection, None] = {}
        for number in itertools.count():
            if not self._waiting or cost >= _PORTION or (number % _UNCHECKED == 0 and self._is_full()):
                break
            connection = self._waiting.take()
            if connection is None:
                break
            cost += self._deliver_next(connection)
            served[connection] = None
            if connection.has_to_pass:
                self._waiting.add(connection)
        for connection in served:
            delivered(connection)

    def end(self, connection: WebsocketConnection) -> None:
        """Delivers the remaining frames of a closed connection: the node may know that they arrived, and not repeat
        them.
        """
        while connection.unread:
            frame = connection.pass_next()
            if not connection.link.is_closed:
                self._deliver(connection, frame)
        self._waiting.forget(connection)
        self._budget.forget(connection)

    def _deliver_next(self, connection: WebsocketConnection) -> int:
        """Delivers the oldest frame of a connection, and returns its cost."""
        frame = connection.pass_next()
        cost = len(frame) + _FRAME_COST
        self._waiting.charge(connection, cost)
        self._deliver(connection, frame)
        return cost


def _is_keepalive(frame: bytes) -> bool:
    if len(frame) > _KEEPALIVE_BYTES or _KEEPALIVE not in frame:
        return False
    try:
        return decode(frame).route.operation == Operation.KEEPALIVE
    except FrameError:
        return False

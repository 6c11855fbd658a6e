"""The received frames that wait to be delivered to cloudhub."""

import itertools
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from beehive.codec import decode
from beehive.errors import FrameError
from beehive.names import Operation
from modules.cloud.websocket.connection import WebsocketConnection
from modules.cloud.websocket.fair_share import FairShare
from modules.cloud.websocket.message_budget import FREE_BYTES, MessageBudget

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
        self.waiting: AbstractSet[WebsocketConnection] = self._waiting.waiting
        """Connections with frames to deliver."""
        self._budget: MessageBudget[WebsocketConnection] = MessageBudget(most_bytes)
        self.large: AbstractSet[WebsocketConnection] = self._budget.members
        """Connections with large messages, which count for the budget."""

    def keep(self, connection: WebsocketConnection, frame: bytes, now: float) -> None:
        """Queue a received frame. A keepalive is delivered now, at most one per second and connection."""
        connection.link.is_held_back = True  # until the connection is updated
        connection.unread.append(frame)
        connection.unread_bytes += len(frame)
        if connection in self._budget.unfinished:
            self._budget.finish(connection)
        if len(frame) > _KEEPALIVE_BYTES or _KEEPALIVE not in frame or not _is_keepalive(frame):
            return
        connection.pass_on(newest=True)
        if now - connection.alive_at >= _KEEPALIVE_PERIOD:
            connection.alive_at = now
            self._deliver(connection, frame)
        else:
            connection.link.handled(len(frame))

    def received(self, connection: WebsocketConnection, now: float) -> bool:
        """Queue the connection if it has a frame to deliver, and return whether its messages' bytes are within the
        budget.
        """
        if connection.unread and connection.link.admits():
            self._waiting.add(connection, len(connection.unread[0]) + _FRAME_COST)
        unfinished, waiting = connection.unfinished_bytes, connection.unread_bytes
        if unfinished + waiting <= FREE_BYTES and connection not in self._budget.members:
            return True
        return self._budget.keep(connection, unfinished, waiting, now)

    def resumable(self) -> list[WebsocketConnection]:
        """Return the connections that were not read because of the budget, and may be now."""
        return self._budget.resumable()

    def overdue(self, now: float) -> Iterator[WebsocketConnection]:
        """Yield the connections to end because of their unfinished messages; the caller calls `end` with each."""
        return self._budget.overdue(now)

    def update(self, connection: WebsocketConnection, now: float) -> bool:
        """Queue the connection if it has a frame to deliver, and return whether its socket may be read."""
        self.received(connection, now)
        may_be_read = connection.may_be_read
        if connection in self._budget.members:
            may_be_read = self._budget.may_grow(connection) and may_be_read
        connection.link.is_held_back = bool(connection.unread) or not may_be_read
        return may_be_read

    def dispatch(self) -> dict[WebsocketConnection, None]:
        """Deliver a portion of the waiting frames in fair shares; none while the inboxes are full. Return the
        connections that sent them, to be updated.
        """
        cost = 0
        served: dict[WebsocketConnection, None] = {}
        for number in itertools.count():
            if cost >= _PORTION or (number % _UNCHECKED == 0 and (not self.waiting or self._is_full())):
                break
            connection = self._waiting.pop()
            if connection is None:
                break
            frame = connection.pass_on()
            cost += len(frame) + _FRAME_COST
            self._deliver(connection, frame)
            served[connection] = None
            if connection.unread and connection.link.admits():
                self._waiting.add(connection, len(connection.unread[0]) + _FRAME_COST)
        return served

    def end(self, connection: WebsocketConnection) -> None:
        """Deliver the remaining frames of a closed connection: the node may know that they arrived, and not repeat
        them.
        """
        while connection.unread:
            frame = connection.pass_on()
            if not connection.link.is_closed:
                self._deliver(connection, frame)
        self._waiting.forget(connection)
        self._budget.forget(connection)


def _is_keepalive(frame: bytes) -> bool:
    try:
        return decode(frame).route.operation == Operation.KEEPALIVE
    except FrameError:
        return False

"""What has come from nodes and was not looked at yet: whose message cloudhub is handed next, and who may send more.

Nodes take turns (`fair`). When cloudhub or edgecontroller is behind, nothing is handed on for a while, and then little.
A keepalive does not wait for what stands before it.
"""

from collections.abc import Callable
from typing import Final

from beehive.codec import decode
from beehive.errors import FrameError
from beehive.names import Operation
from modules.cloudhub.connection import Connection
from modules.cloudhub.fair import FairShare

CROWDED_SECONDS: Final = 1.0
"""How long it hands on nothing at most."""
_CROWDED_FRAMES: Final = 128
"""How many messages it then hands on."""
_FRAME_COST: Final = 512
"""Bytes that a frame of none is worth: reading it takes time too."""
_PORTION: Final = 1024 * 1024
"""Bytes that are decoded between two looks at the sockets, so that who has just sent something takes turns too."""
_MOST_BYTES: Final = 256 * 1024 * 1024
"""Bytes of all connections; beyond it, who has some there is not read."""
_KEEPALIVE: Final = b'"keepalive"'
_KEEPALIVE_BYTES: Final = 1024
_KEEPALIVE_EVERY: Final = 1.0
"""Seconds between two keepalives of a node that pass what stands before them."""


class Incoming:
    """The messages of all connections, for the server's thread.

    Args:
        hand: hands a message of a connection to cloudhub.
        is_crowded: whether those who take messages are behind.
    """

    def __init__(self, hand: Callable[[Connection, bytes], None], is_crowded: Callable[[], bool]) -> None:
        self._hand = hand
        self._is_crowded = is_crowded
        self._turns: FairShare[Connection] = FairShare()
        self._bytes = 0
        self._moved_at = 0.0
        """Monotonic seconds at which a message was handed on, or at which nothing waited for that."""

    def __bool__(self) -> bool:
        return bool(self._turns)

    def keep(self, connection: Connection, frame: bytes, now: float) -> None:
        """A message has come. Of many keepalives, one a second counts."""
        connection.keep(frame)
        self._bytes += len(frame)
        if not _is_keepalive(frame):
            return
        self._bytes -= len(connection.pass_last())
        if now - connection.alive_at >= _KEEPALIVE_EVERY:
            connection.alive_at = now
            self._hand(connection, frame)
        else:
            connection.link.handled(len(frame))

    def look_at(self, connection: Connection) -> bool:
        """Sees whether a connection waits for its turn; gives whether it may be read."""
        if connection.has_to_pass:
            self._turns.add(connection)
        return connection.may_be_read and not (connection.unread and self._bytes >= _MOST_BYTES)

    def hand_on(self, now: float, handed: Callable[[Connection], None]) -> None:
        """Hands on messages by turns, a portion of them; `handed` is told whose."""
        frames = cost = 0
        late = now - self._moved_at >= CROWDED_SECONDS
        while self._turns and cost < _PORTION:
            if self._is_crowded() and not (late and frames < _CROWDED_FRAMES):
                break
            connection = self._turns.take()
            if connection is None:
                break
            frames += 1
            cost += self._hand_on_one(connection)
            handed(connection)
        if frames or not self._turns:
            self._moved_at = now

    def end(self, connection: Connection) -> None:
        """A connection ends. What has been read is handed on: the node may know that, and does not repeat it."""
        while connection.unread:
            frame = connection.pass_next()
            self._bytes -= len(frame)
            if not connection.link.is_closed:
                self._hand(connection, frame)
        self._turns.forget(connection)

    def _hand_on_one(self, connection: Connection) -> int:
        """Gives what that cost."""
        frame = connection.pass_next()
        self._bytes -= len(frame)
        cost = len(frame) + _FRAME_COST
        self._turns.charge(connection, cost)
        self._hand(connection, frame)
        return cost


def _is_keepalive(frame: bytes) -> bool:
    if len(frame) > _KEEPALIVE_BYTES or _KEEPALIVE not in frame:
        return False
    try:
        return decode(frame).route.operation == Operation.KEEPALIVE
    except FrameError:
        return False

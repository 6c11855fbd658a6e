"""Credit of a stream: the bytes that an end may send before the other has passed on earlier ones.

KubeEdge's protocol lacks it, so a reader that stops holds up all streams of its tunnel. The two ends of this project
agree on it: a node asks for it in its upgrade (`HEADER`), and the cloud grants it with a frame `CREDIT` of connection
0 before any other. Then each stream begins with `FIRST_CREDIT` bytes in each direction, and the receiver grants more
with frames `CREDIT` of that stream. KubeEdge's peers ignore the header, and are never sent such a frame.
"""

from typing import Final

HEADER: Final = "SessionStreamCredit"
"""Header of the upgrade; its value is `VERSION`."""
VERSION: Final = "1"
LIMIT_HEADER: Final = "SessionStreamLimit"
"""Header of the upgrade: the streams that the node serves at a time, so that the cloud can share them among users."""
FIRST_CREDIT: Final = 32 * 1024
"""Bytes that each end of a stream may send before it is granted any."""
FRAME_COST: Final = 128
"""Bytes that a frame counts in addition to its data, so that frames of one byte are bounded too."""
_LEAST_GRANT: Final = FIRST_CREDIT // 2


class SendCredit:
    """The credit of a stream's sender."""

    def __init__(self) -> None:
        self._left = FIRST_CREDIT

    @property
    def room(self) -> int:
        """Bytes of data that the next frame may have, or 0."""
        return max(0, self._left - FRAME_COST)

    def spend(self, size: int) -> None:
        """Count a frame with this many bytes of data."""
        self._left -= size + FRAME_COST

    def add(self, size: int) -> None:
        """Add a grant of the receiver."""
        self._left += size


class ReceiveWindow:
    """The credit that a stream's receiver has granted and the sender has not used, as far as the receiver knows."""

    def __init__(self) -> None:
        self.outstanding = FIRST_CREDIT
        self._is_used = False

    @property
    def is_overrun(self) -> bool:
        """Whether the sender has sent more than it was granted, by more than an HTTP parser may have held back."""
        return self.outstanding < -FIRST_CREDIT

    def received(self, size: int) -> None:
        """Count a received frame with this many bytes of data."""
        self.outstanding -= size + FRAME_COST
        self._is_used = True

    def grant(self, waiting: int, most: int) -> int:
        """Return the bytes to grant now, which count as granted; 0 while they are few, and while nothing has come: a
        stream that is silent keeps its first credit only.

        Args:
            waiting: received bytes that are not passed on yet.
            most: bytes that may wait or be granted.
        """
        more = most - waiting - self.outstanding
        if not self._is_used or more < _LEAST_GRANT:
            return 0
        self.outstanding += more
        return more

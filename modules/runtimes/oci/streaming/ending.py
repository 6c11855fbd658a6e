"""The end of a streaming connection."""

import select
from typing import Final

from beehive import Clock
from modules.runtimes.oci.streaming.link import ByteLink

MOST_ANSWERS: Final = 2 << 20
"""Bytes that wait to be sent to a client that is still read: above that it sends pings and takes no answers."""
FLUSH_SECONDS: Final = 30.0
"""Seconds that a client has to take the last bytes of a stream."""
LINGER_SECONDS: Final = 5.0
"""Seconds that a client has to end its side. Its late bytes are read: otherwise the kernel resets the connection, and
the client loses bytes that we have sent.
"""


def linger(link: ByteLink, clock: Clock) -> None:
    """Send the unsent bytes, end our side, and wait a while for the end of the other."""
    poll = select.poll()
    poll.register(link, select.POLLIN | select.POLLOUT)
    deadline = clock.monotonic() + FLUSH_SECONDS
    link.send()
    while link.unsent:
        if link.unsent > 2 * MOST_ANSWERS or not _wait(poll, deadline, clock) or not _discard(link):
            return
        link.send()
    link.finish()
    poll.modify(link, select.POLLIN)
    deadline = clock.monotonic() + LINGER_SECONDS
    while link.unsent < MOST_ANSWERS and _wait(poll, deadline, clock) and _discard(link):
        pass


def _wait(poll: "select.poll", deadline: float, clock: Clock) -> bool:
    left = deadline - clock.monotonic()
    return left > 0 and bool(poll.poll(left * 1000))


def _discard(link: ByteLink) -> bool:
    """Read and forget; return False at the end."""
    try:
        return link.receive() is not None
    except ValueError:
        return False

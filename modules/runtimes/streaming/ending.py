"""The end of a streaming connection."""

import select
from typing import Final

from beehive import Clock
from modules.runtimes.streaming.link import ByteLink

MOST_ANSWERS: Final = 2 << 20
"""Bytes that wait to be sent to a client that is still read: above that it sends pings and takes no answers."""
IDLE_SECONDS: Final = 4 * 3600.0
"""Without any data, after which a session ends; also while its last bytes are sent."""
FLUSH_SECONDS: Final = 30.0
"""Seconds that a client which has ended its side, or was given up, may take none of the last bytes."""


def linger(link: ByteLink, clock: Clock, *, whole: bool) -> None:
    """Send the unsent bytes, end our side, and wait for the end of the other. A client that is given up has its
    connection reset: one of SPDY takes a polite end for the command's success.

    Args:
        link: the connection.
        clock: for the deadlines.
        whole: whether the streams have come to their end: then the client may read the rest as slowly as the rest
            before it.
    """
    poll = select.poll()
    poll.register(link, select.POLLIN | select.POLLOUT)
    patience = IDLE_SECONDS if whole else FLUSH_SECONDS
    deadline = clock.monotonic() + patience
    link.send()
    least = link.unsent
    while link.unsent:
        if link.unsent > 2 * MOST_ANSWERS or not _wait(poll, deadline, clock):
            link.reset()
            return
        if not _discard(link):
            patience = FLUSH_SECONDS
            deadline = min(deadline, clock.monotonic() + patience)
            poll.modify(link, select.POLLOUT)  # its end can be read for ever
        link.send()
        if link.unsent < least:
            least, deadline = link.unsent, clock.monotonic() + patience
    if not whole and _discard(link):
        link.reset()
        return
    link.finish()
    link.await_end(clock, patience)


def _wait(poll: "select.poll", deadline: float, clock: Clock) -> bool:
    left = deadline - clock.monotonic()
    return left > 0 and bool(poll.poll(left * 1000))


def _discard(link: ByteLink) -> bool:
    """Read and forget; return False at the end."""
    try:
        return link.receive() is not None
    except ValueError:
        return False

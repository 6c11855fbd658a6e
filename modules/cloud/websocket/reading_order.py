"""The order of connections with something to read."""

from collections.abc import Callable, Iterator
from typing import Final

from modules.cloud.websocket.connection import WebsocketConnection

ROUND_SECONDS: Final = 0.05
"""Seconds between two polls of the sockets after which only connections that cost little are served: 16 KiB of a node
may be 16 MiB without compression.
"""
LITTLE_SECONDS: Final = 0.005
"""Seconds that a connection may have cost lately to be among these."""

Ready = tuple[WebsocketConnection, int]
"""A connection, and its ready events."""


def in_order(ready: list[Ready], monotonic: Callable[[], float]) -> Iterator[Ready]:
    """Yield connections, those first that have cost least, and charge each with the time until the next is asked for.

    Once the others have waited long enough, costly ones are left for the next poll, which reports them again; one is
    served each time.

    Args:
        ready: the connections.
        monotonic: seconds.
    """
    if len(ready) > 1:
        lately = [connection.seconds for connection, _ in ready]
        ready = [ready[place] for place in sorted(range(len(ready)), key=lately.__getitem__)]
    begin = before = monotonic()
    for number, (connection, happened) in enumerate(ready):
        if number and connection.seconds > LITTLE_SECONDS and before - begin > ROUND_SECONDS:
            return
        yield connection, happened
        now = monotonic()
        connection.seconds += now - before
        before = now

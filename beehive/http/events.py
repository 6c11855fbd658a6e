"""Reading of h11's events from a connection."""

from collections.abc import Callable
from typing import Final

import h11

from beehive.http.errors import HttpError, reason_of

Receive = Callable[[], bytes]
"""Returns the connection's next bytes, `b""` at its end; blocks, and raises on the caller's deadline."""

SMALL_PIECES: Final = 1024
"""Pieces that may be small: reads of a connection for one event, or chunks of a body with a bound. Each takes some
twenty microseconds, and with TLS twice as long.
"""
PIECE_BYTES: Final = 512
"""Bytes for each further piece."""


def next_event(connection: h11.Connection, receive: Receive, *, waits: bool = True) -> h11.Event | type[h11.PAUSED]:
    """Return the next event, and receive bytes as long as it is not complete, if it `waits`; otherwise `PAUSED`.

    Raises:
        HttpError: the bytes are not HTTP/1.1, exceed the bound, end too early, or come one by one.
    """
    reads = received = 0
    try:
        while True:
            event = connection.next_event()
            if event is not h11.NEED_DATA:
                return event  # type: ignore[return-value]
            if not waits:
                return h11.PAUSED
            data = receive()
            reads, received = reads + 1, received + len(data)
            if reads > SMALL_PIECES + received // PIECE_BYTES:
                raise HttpError(400, f"more than {SMALL_PIECES} reads brought less than {PIECE_BYTES} bytes")
            connection.receive_data(data)
    except h11.RemoteProtocolError as error:
        raise HttpError(error.error_status_hint, reason_of(error)) from error

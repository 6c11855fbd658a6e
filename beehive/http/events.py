"""Reading of h11's events from a connection."""

from collections.abc import Callable

import h11

from beehive.http.errors import HttpError

Receive = Callable[[], bytes]
"""Returns the connection's next bytes, `b""` at its end; blocks, and raises on the caller's deadline."""


def next_event(connection: h11.Connection, receive: Receive, *, waits: bool = True) -> h11.Event | type[h11.PAUSED]:
    """Return the next event, and receive bytes as long as it is not complete, if it `waits`; otherwise `PAUSED`.

    Raises:
        HttpError: the bytes are not HTTP/1.1, exceed the bound, or end too early.
    """
    try:
        while True:
            event = connection.next_event()
            if event is not h11.NEED_DATA:
                return event  # type: ignore[return-value]
            if not waits:
                return h11.PAUSED
            connection.receive_data(receive())
    except h11.RemoteProtocolError as error:
        raise HttpError(error.error_status_hint, str(error)) from error

"""SPDY streams on a connection, for the sessions."""

from collections.abc import Callable
from typing import TypeVar

from beehive.http.spdy import ConnectionEnd, SpdyConnection, SpdyError, SpdyEvent
from modules.runtimes.streaming.link import ByteLink

EventT = TypeVar("EventT")


class SpdyLink:
    """The server's side of a SPDY connection. Its frames are queued on the link.

    Args:
        link: the connection.
    """

    def __init__(self, link: ByteLink) -> None:
        self._link = link
        self._spdy = SpdyConnection(is_server=True)

    def receive(self, understand: Callable[[SpdyEvent], list[EventT]]) -> list[EventT] | None:
        """Return the meanings of the received events; None when the client has disconnected.

        Raises:
            ValueError: a frame is invalid.
        """
        data = self._link.receive()
        if data is None:
            return None
        found: list[EventT] = []
        try:
            for event in self._spdy.receive(data):
                if isinstance(event, ConnectionEnd):
                    return None
                found += understand(event)
        except SpdyError as error:
            raise ValueError(str(error)) from None
        finally:
            self._pass_on()
        return found

    def accept(self, stream: int) -> None:
        """Accept a stream that the client has opened."""
        self._spdy.accept(stream)

    def reset(self, stream: int) -> None:
        """Refuse a stream that the client has opened."""
        self._spdy.reset(stream)

    def send(self, stream: int, data: bytes, *, last: bool = False) -> None:
        """Send bytes on a stream; `last` ends it, also without bytes."""
        self._spdy.send(stream, data, last=last)
        self._pass_on()

    def _pass_on(self) -> None:
        self._link.queue(bytes(self._spdy.unsent))
        self._spdy.unsent.clear()

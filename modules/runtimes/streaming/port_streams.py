"""Forwarded connections over SPDY and over a WebSocket."""

import re
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from beehive.http.spdy import SpdyError, SpdyEvent, StreamData, StreamEnd, StreamOpened
from modules.runtimes.streaming.link import ByteLink, TunnelLink
from modules.runtimes.streaming.spdy_link import SpdyLink

if TYPE_CHECKING:
    from modules.runtimes.streaming.web_socket import WebSocketLink

SPDY_PROTOCOLS: Final = ("portforward.k8s.io",)
TUNNEL_PROTOCOL: Final = "SPDY/3.1+portforward.k8s.io"
WEB_SOCKET_PROTOCOLS: Final = (
    TUNNEL_PROTOCOL, "v4.channel.k8s.io", "v4.base64.channel.k8s.io", "portforward.k8s.io",
)  # fmt: skip

MOST_CONNECTIONS: Final = 256
"""Forwarded at one time for one client."""

_MOST_EARLY: Final = 32
"""Most frames that are held for a connection whose stream of errors is missing."""
_PORT: Final = re.compile(r"[0-9]{1,5}", re.ASCII)


class PortOpened(NamedTuple):
    """The client wants a connection to a port; the number names it from now on."""

    number: int
    port: int


class PortData(NamedTuple):
    """Bytes for a connection."""

    number: int
    data: bytes


class PortEnd(NamedTuple):
    """The client sends no more on a connection, or gives it up."""

    number: int
    reset: bool


PortEvent = PortOpened | PortData | PortEnd


class PortStreams(Protocol):
    """The connections of one client. `link` sends their messages."""

    link: ByteLink
    can_end: bool
    """Whether one direction of a connection can be ended alone."""

    @property
    def over(self) -> bool:
        """Whether the client can have no more connections."""

    def receive(self) -> list[PortEvent] | None:
        """Return the received events; None when the client has closed. Raises ValueError for an invalid message."""

    def write(self, number: int, data: bytes) -> None:
        """Send bytes of a connection."""

    def end(self, number: int) -> None:
        """Say that nothing more comes of a connection."""

    def reset(self, number: int) -> None:
        """Say that what has come of a connection is not all; `close` it then."""

    def close(self, number: int, problem: str = "") -> None:
        """End a connection in both directions; with the reason if it failed."""


class _Pair:
    """The streams of data and of errors of one connection, as the client opens them."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.data = self.error = 0
        self.early: list[StreamData | StreamEnd] = []
        """Frames that came on the stream of data before the stream of errors was opened."""
        self.sends = True
        """Whether we have not ended our side of the data."""


class SpdyPorts:
    """A pair of SPDY streams for each connection (`PortStreams`); its number is the data stream's."""

    can_end = True

    def __init__(self, link: ByteLink) -> None:
        self.link = link
        self._spdy = SpdyLink(link)
        self._waiting: dict[str, _Pair] = {}
        """Pairs with one missing stream, by the client's name of the connection."""
        self._pairs: dict[int, _Pair] = {}

    @property
    def over(self) -> bool:
        """See `PortStreams`."""
        return False

    def receive(self) -> list[PortEvent] | None:
        """See `PortStreams`."""
        return self._spdy.receive(self._understood)

    def write(self, number: int, data: bytes) -> None:
        """See `PortStreams`."""
        self._spdy.send(number, data)

    def end(self, number: int) -> None:
        """See `PortStreams`."""
        pair = self._pairs[number]
        if pair.sends:
            pair.sends = False
            self._spdy.send(number, b"", last=True)

    def reset(self, number: int) -> None:
        """See `PortStreams`."""
        pair = self._pairs[number]
        if pair.sends:
            pair.sends = False
            self._spdy.reset(number)

    def close(self, number: int, problem: str = "") -> None:
        """See `PortStreams`."""
        pair = self._pairs.pop(number)
        self._spdy.send(pair.error, problem.encode(), last=True)
        if pair.sends:
            self._spdy.send(pair.data, b"", last=True)

    def _understood(self, event: SpdyEvent) -> list[PortEvent]:
        match event:
            case StreamOpened():
                return self._opened(event)
            case StreamData() | StreamEnd():
                return self._of_stream(event)
        return []

    def _of_stream(self, event: StreamData | StreamEnd) -> list[PortEvent]:
        if event.stream not in self._pairs:
            pair = next((each for each in self._waiting.values() if each.data == event.stream), None)
            if pair is not None and len(pair.early) < _MOST_EARLY:
                pair.early.append(event)
            elif pair is not None:
                raise SpdyError("data of a connection that has no stream of errors")
            return []
        if isinstance(event, StreamData):
            return [PortData(event.stream, event.data)]
        return [PortEnd(event.stream, event.reset)]

    def _opened(self, event: StreamOpened) -> list[PortEvent]:
        kind, port = event.headers.get("streamtype"), event.headers.get("port", "")
        is_port = _PORT.fullmatch(port) and 0 < int(port) < 65_536
        if not is_port or kind not in ("data", "error") or len(self._waiting) + len(self._pairs) >= MOST_CONNECTIONS:
            self._spdy.reset(event.stream)
            return []
        # clients of the time before `requestID` open the stream of errors first, and then the stream of data
        name = event.headers.get("requestid") or f"#{event.stream if kind == 'error' else event.stream - 2}"
        pair = self._waiting.setdefault(name, _Pair(int(port)))
        if getattr(pair, kind) or pair.port != int(port):
            raise SpdyError("two streams of one kind for one connection")
        setattr(pair, kind, event.stream)
        self._spdy.accept(event.stream)
        if not (pair.data and pair.error):
            return []
        del self._waiting[name]
        self._pairs[pair.data] = pair
        early, pair.early = pair.early, []
        return [PortOpened(pair.data, pair.port), *(event for each in early for event in self._of_stream(each))]


class WebSocketPorts:
    """Two channels of a WebSocket for each port of the request (`PortStreams`): data and errors.

    A channel cannot be ended: the whole WebSocket is closed with the last connection.
    """

    can_end = False

    def __init__(self, messages: "WebSocketLink", ports: tuple[int, ...]) -> None:
        self.link: ByteLink = TunnelLink(messages)
        self._messages = messages
        self._unopened = list(enumerate(ports))
        self._open = {number for number, _ in self._unopened}
        for number, port in self._unopened:
            for channel in (2 * number, 2 * number + 1):
                messages.queue(bytes([channel]) + port.to_bytes(2, "little"))

    @property
    def over(self) -> bool:
        """See `PortStreams`."""
        return not self._open

    def receive(self) -> list[PortEvent] | None:
        """See `PortStreams`."""
        opened: list[PortEvent] = [PortOpened(number, port) for number, port in self._unopened]
        self._unopened = []
        if opened:
            return opened
        messages = self._messages.receive()
        if messages is None:
            return None
        return [
            PortData(message[0] // 2, message[1:]) for message in messages if len(message) > 1 and not message[0] % 2
        ]

    def write(self, number: int, data: bytes) -> None:
        """See `PortStreams`."""
        self._messages.queue(bytes([2 * number]) + data)

    def end(self, number: int) -> None:
        """See `PortStreams`."""

    def reset(self, number: int) -> None:
        """See `PortStreams`."""

    def close(self, number: int, problem: str = "") -> None:
        """See `PortStreams`."""
        self._open.discard(number)
        if problem:
            self._messages.queue(bytes([2 * number + 1]) + problem.encode())

"""The streams of a command over SPDY and over a WebSocket, as channels, and its end as a metav1.Status."""

import base64
import binascii
import re
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec

from beehive.http.spdy import SpdyEvent, StreamData, StreamEnd, StreamOpened
from modules.runtimes.streaming.link import ByteLink, TunnelLink
from modules.runtimes.streaming.requests import StreamRequest
from modules.runtimes.streaming.spdy_link import SpdyLink

SUCCESS: Final[dict[str, Any]] = {"metadata": {}, "status": "Success"}


def exit_status(code: int) -> dict[str, Any]:
    """Return the status of a command that has ended with this code."""
    if code == 0:
        return SUCCESS
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def failure(message: str) -> dict[str, Any]:
    """Return the status of a command that did not run, or not to its end."""
    causes = {"causes": [{"message": message}]}
    return {
        "metadata": {}, "status": "Failure", "reason": "InternalError", "message": message, "details": causes,
        "code": 500,
    }  # fmt: skip


def encoded(status: dict[str, Any], version: int) -> bytes:
    """Return a status as a version of the protocol has it: before version 4 the message of a failure only."""
    if version >= 4:
        return msgspec.json.encode(status)
    return str(status.get("message", "")).encode()


if TYPE_CHECKING:
    from modules.runtimes.streaming.web_socket import WebSocketLink

SPDY_PROTOCOLS: Final = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
"""Versions of exec and attach over SPDY, the preferred first; a client that names none speaks the last one."""
WEB_SOCKET_PROTOCOLS: Final = (
    "v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io",
    "v4.base64.channel.k8s.io", "base64.channel.k8s.io", "channel.k8s.io",
)  # fmt: skip
"""Versions over WebSocket."""

_VERSION: Final = re.compile(r"v(\d)\.")
_LONGEST_PIECE: Final = 64 * 1024
_QUIET_VERSION: Final = 5
"""The first version over WebSocket that begins with pings instead of an empty message."""
PINGS: Final = 3
"""One after the other: how often a client has read, and waited, before it is sent anything."""


class StreamChannel(IntEnum):
    """Streams of a command, as a WebSocket's messages number them."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    RESIZE = 4
    CLOSE = 255


class ChannelData(NamedTuple):
    """Bytes of a channel."""

    channel: StreamChannel
    data: bytes


class ChannelEnd(NamedTuple):
    """The client sends no more on a channel."""

    channel: StreamChannel


ChannelEvent = ChannelData | ChannelEnd


class CommandChannels(Protocol):
    """The channels of one command. `link` sends their messages."""

    link: ByteLink

    @property
    def complete(self) -> bool:
        """Whether the client has opened all streams of the request, as far as the protocol shows it."""

    def receive(self) -> list[ChannelEvent] | None:
        """Return the received events; None when the client has closed. Raises ValueError for an invalid message."""

    def write(self, channel: StreamChannel, data: bytes) -> None:
        """Send output; nothing on a channel that the client has not asked for."""

    def finish(self, status: dict[str, Any]) -> None:
        """End all channels with the command's status."""


def version_of(protocol: str) -> int:
    """Return the version in a protocol's name."""
    found = _VERSION.match(protocol)
    return int(found[1]) if found else 1


def wanted_channels(request: StreamRequest, version: int) -> set[StreamChannel]:
    """Return the channels that a client opens for a request."""
    wanted = {
        StreamChannel.ERROR: True,
        StreamChannel.STDIN: request.stdin,
        StreamChannel.STDOUT: request.stdout,
        StreamChannel.STDERR: request.stderr and not request.tty,
        StreamChannel.RESIZE: request.tty and version >= 3,
    }
    return {channel for channel, is_wanted in wanted.items() if is_wanted}


class SpdyChannels:
    """A stream of SPDY for each channel (`CommandChannels`)."""

    def __init__(self, link: ByteLink, protocol: str, request: StreamRequest) -> None:
        self.link = link
        self._version = version_of(protocol)
        self._spdy = SpdyLink(link)
        self._wanted = wanted_channels(request, self._version)
        self._streams: dict[StreamChannel, int] = {}
        self._channels: dict[int, StreamChannel] = {}

    @property
    def complete(self) -> bool:
        """See `CommandChannels`."""
        return self._wanted <= self._streams.keys()

    def receive(self) -> list[ChannelEvent] | None:
        """See `CommandChannels`."""
        return self._spdy.receive(self._understood)

    def write(self, channel: StreamChannel, data: bytes) -> None:
        """See `CommandChannels`."""
        if channel in self._streams:
            self._spdy.send(self._streams[channel], data)

    def finish(self, status: dict[str, Any]) -> None:
        """See `CommandChannels`."""
        for channel in (StreamChannel.STDOUT, StreamChannel.STDERR):
            if channel in self._streams:
                self._spdy.send(self._streams[channel], b"", last=True)
        if StreamChannel.ERROR in self._streams:
            self._spdy.send(self._streams[StreamChannel.ERROR], encoded(status, self._version), last=True)

    def _understood(self, event: SpdyEvent) -> list[ChannelEvent]:
        match event:
            case StreamOpened():
                return self._opened(event)
            case StreamData(stream, piece) if stream in self._channels:
                return [ChannelData(self._channels[stream], piece)]
            case StreamEnd(stream) if stream in self._channels:
                return [ChannelEnd(self._channels[stream])]
        return []

    def _opened(self, event: StreamOpened) -> list[ChannelEvent]:
        name = event.headers.get("streamtype", "").upper()
        channel = StreamChannel.__members__.get(name)
        if channel not in self._wanted or channel in self._streams:
            self._spdy.reset(event.stream)
            return []
        self._streams[channel], self._channels[event.stream] = event.stream, channel
        self._spdy.accept(event.stream)
        return [ChannelEnd(channel)] if event.ended else []


class WebSocketChannels:
    """Messages of a WebSocket whose first byte is the channel (`CommandChannels`).

    Up to version 4 it begins with an empty message on the lowest channel of output, as containerd's streaming server
    does. kubectl before 1.34, which speaks version 5, begins to read while it makes its channels, and discards messages
    of others with `Unknown stream id 1` (kubernetes/kubernetes#131203): a quick command's output or its exit code. In
    version 5 nothing is sent before the client has answered `PINGS` pings or has sent input: of 4,000 attached under
    load, 5 had answered one ping too early.
    """

    def __init__(self, messages: "WebSocketLink", request: StreamRequest) -> None:
        self.link: ByteLink = TunnelLink(messages)
        self._messages = messages
        self._version = version_of(messages.subprotocol)
        self._is_base64 = "base64" in messages.subprotocol
        self._wanted = wanted_channels(request, 4)
        if self._version < _QUIET_VERSION:
            outputs = {StreamChannel.STDOUT, StreamChannel.STDERR, StreamChannel.ERROR} & self._wanted
            self._send(min(outputs), b"")
        else:
            messages.ping()

    @property
    def complete(self) -> bool:
        """See `CommandChannels`."""
        return self._version < _QUIET_VERSION or self._messages.has_message or self._messages.pongs >= PINGS

    def receive(self) -> list[ChannelEvent] | None:
        """See `CommandChannels`."""
        pongs = self._messages.pongs
        messages = self._messages.receive()
        if messages is None:
            return None
        if self._messages.pongs > pongs and not self.complete:
            self._messages.ping()
        events = [self._event(message) for message in messages if message]
        return [event for event in events if event is not None]

    def write(self, channel: StreamChannel, data: bytes) -> None:
        """See `CommandChannels`."""
        if channel in self._wanted:
            for place in range(0, len(data), _LONGEST_PIECE):
                self._send(channel, data[place : place + _LONGEST_PIECE])

    def finish(self, status: dict[str, Any]) -> None:
        """See `CommandChannels`."""
        if text := encoded(status, self._version):
            self._send(StreamChannel.ERROR, text)
        self._messages.close()

    def _event(self, message: bytes) -> ChannelEvent | None:
        number = message[0] - ord("0") if self._is_base64 else message[0]
        content = message[1:]
        if self._version >= 5 and number == StreamChannel.CLOSE:
            return ChannelEnd(StreamChannel.STDIN) if content == bytes([StreamChannel.STDIN]) else None
        if number not in (StreamChannel.STDIN, StreamChannel.RESIZE) or StreamChannel(number) not in self._wanted:
            return None
        return ChannelData(StreamChannel(number), self._decoded(content))

    def _decoded(self, content: bytes) -> bytes:
        if not self._is_base64:
            return content
        try:
            return base64.b64decode(content, validate=True)
        except binascii.Error:
            raise ValueError("a message that is not base64") from None

    def _send(self, channel: StreamChannel, data: bytes) -> None:
        if self._is_base64:
            self._messages.queue(b"%d" % channel + base64.b64encode(data), is_text=True)
        else:
            self._messages.queue(bytes([channel]) + data)

"""A node's tunnel, with its streams."""

import contextlib
import logging
import threading
from typing import Final

from beehive.clock import Clock
from beehive.http.connections import Client, StreamShares
from modules.cloud.cloudstream.errors import NoTunnelError, TooManyStreamsError
from modules.cloud.cloudstream.queue_memory import QueueMemory
from modules.cloud.cloudstream.stream import TunnelStream
from modules.cloud.websocket.connection import WebsocketLink
from modules.streams import frames
from modules.streams.connect import StreamRequest, encode
from modules.streams.frames import Frame, FrameType

_log = logging.getLogger(__name__)

MOST_STREAMS: Final = 512
"""Streams of one node at a time, and fewer if the node says so. Memory is bounded by `QueueMemory`."""
OWN: Final = Client("", is_privileged=True)
"""cloudcore itself, as a client of nodes."""
_UNSENT_BYTES: Final = 256 * 1024
"""Bytes for the node that wait, above which no client is read."""
_UNSENT_FRAMES: Final = 128
"""The same in frames, far below the link's own limit: each client may just be adding one."""
_MOST_REASON: Final = 500
"""Characters of a node's reason for a stream's end."""
_WITH_METHOD: Final = (FrameType.EXEC, FrameType.ATTACH)


class Tunnel:
    """The streams over one websocket of a node. Thread-safe.

    Args:
        node: its name, from the certificate.
        address: its internal address as the node gives it; "" without one.
        link: the websocket.
        clock: of the time that a client may stop reading.
        memory: for the bytes that wait for clients, of all nodes.
        has_credit: whether the node grants and takes credit.
        most: streams at a time that the node serves.
    """

    def __init__(
        self,
        node: str,
        address: str,
        link: WebsocketLink,
        clock: Clock,
        memory: QueueMemory,
        *,
        has_credit: bool = False,
        most: int = MOST_STREAMS,
    ) -> None:
        self._shares = StreamShares(min(most, MOST_STREAMS))
        self._clients: dict[int, Client] = {}
        """By number of the stream, whose share it has."""
        self.memory = memory
        self.has_credit = has_credit
        self.node = node
        self.address = address
        self.link = link
        self.lock = threading.RLock()
        """Guards the streams, and the link's counters, which know one thread on this side."""
        self._clock = clock
        self._streams: dict[int, TunnelStream] = {}
        self._ended = ""
        """Why the tunnel has ended; "" while it goes on."""
        link.drained = self._drained
        if has_credit:
            with contextlib.suppress(OSError):  # it has ended already
                link.send(Frame(0, FrameType.CREDIT).encode())

    def __len__(self) -> int:
        return len(self._streams)

    @property
    def has_room(self) -> bool:
        """Whether the node reads fast enough for further bytes."""
        return self.link.waiting_bytes < _UNSENT_BYTES and len(self.link.waiting) < _UNSENT_FRAMES

    def open(self, number: int, kind: FrameType, request: StreamRequest, client: Client = OWN) -> TunnelStream:
        """Open a stream.

        Args:
            number: of the stream, never used before.
            kind: its kind: logs, exec, attach or metrics.
            request: for the node's server.
            client: who asks.

        Raises:
            NoTunnelError: the tunnel has ended.
            TooManyStreamsError: the node, or the client there, has too many.
            ConnectError: the request cannot be sent.
        """
        data = encode(request._replace(connection=number), with_method=kind in _WITH_METHOD)
        with self.lock:
            if self._ended:
                raise NoTunnelError("no stream can be opened", f"node {self.node}", self._ended, retryable=True)
            if not self._shares.acquire(client):
                hint = f"of {self._shares.most} logs, commands and port forwardings too many are open: close one"
                raise TooManyStreamsError("no stream can be opened", f"node {self.node}", hint, retryable=True)
            self._clients[number] = client
            stream = self._streams[number] = TunnelStream(number, self, self._clock.monotonic())
            try:
                self.link.send(Frame(number, kind, data).encode())
            except OSError as error:
                stream.close()
                raise NoTunnelError("no stream can be opened", f"node {self.node}", str(error)) from error
            except BaseException:
                stream.close()
                raise
        return stream

    def receive(self, payload: bytes) -> None:
        """Take a message of the node, on the server's thread.

        Raises:
            FrameError: it is no frame; the tunnel cannot go on.
        """
        with self.lock:
            frame = frames.decode(payload)
            stream = self._streams.get(frame.connection)
            if stream is not None and frame.kind == FrameType.DATA and len(frame.data) <= frames.MAX_DATA:
                stream.put(frame.data, len(payload), self._clock.monotonic())
                if stream.has_overrun:
                    self._end(stream, "the node has sent more than it was granted")
                return
            self.handled(len(payload))
            if stream is not None:
                self._control(stream, frame)

    def _control(self, stream: TunnelStream, frame: Frame) -> None:
        """Take credit of the node; end a stream that it has ended, or that has a frame too long. Other frames mean
        nothing.
        """
        if frame.kind == FrameType.CREDIT:
            stream.granted(frames.credit_of(frame))
        elif frame.kind == FrameType.REMOVE:
            self.forget(stream.number, tell=False)
            stream.end(frame.data[:_MOST_REASON].decode(errors="replace"))
        elif frame.kind == FrameType.DATA:
            self._end(stream, f"a frame of the node has more than {frames.MAX_DATA} bytes")

    def _end(self, stream: TunnelStream, why: str) -> None:
        self.forget(stream.number, tell=True)
        stream.end(why)

    def send(self, number: int, data: bytes) -> None:
        """Send bytes of a stream; nothing when it has ended. Raise OSError when the tunnel is about to end."""
        with self.lock:
            if (stream := self._streams.get(number)) is not None:
                for frame in frames.data_frames(number, data):
                    self.link.send(frame.encode())
                    stream.sent(len(frame.data))

    def grant(self, number: int, size: int) -> None:
        """Let the node send this many more bytes of a stream. Under the lock."""
        with contextlib.suppress(OSError):  # the tunnel ends, and with it the stream
            self.link.send(frames.credit_frame(number, size).encode())

    def forget(self, number: int, *, tell: bool) -> None:
        """Remove a stream from the table; `tell` the node of it. Under the lock."""
        if (client := self._clients.pop(number, None)) is not None:
            self._shares.release(client)
        if self._streams.pop(number, None) is not None and tell and not self._ended:
            with contextlib.suppress(OSError):  # the tunnel ends, and with it the stream
                self.link.send(Frame(number, FrameType.REMOVE).encode())

    def handled(self, size: int) -> None:
        """Count a message as handled. Under the lock."""
        self.link.handled(size)

    def end(self, why: str) -> None:
        """Cut all streams, because the tunnel has ended."""
        with self.lock:
            self._ended = self._ended or why
            streams, self._streams = list(self._streams.values()), {}
            for stream in streams:
                stream.end(why)

    def end_stalled(self, now: float) -> None:
        """Remove the streams whose clients read too slowly to go on without harm to the node's others."""
        with self.lock:
            alone = len(self._streams) == 1
            for stream in [one for one in self._streams.values() if one.is_stalled(now, alone=alone)]:
                _log.warning("node %s: a stream is removed, its client does not read", self.node)
                self._end(stream, "the client reads too slowly")

    def _drained(self) -> None:
        with self.lock:
            for stream in self._streams.values():
                stream.drained()

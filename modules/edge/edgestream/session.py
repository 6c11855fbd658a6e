"""One tunnel with its streams.

Two threads serve it. The link's thread reads and writes the tunnel, and only decodes frames. The streams' thread owns
the streams: it polls their connections to the node's own server, and never waits for one of them. So a container that
does not read, or a caller that does not, stops its own stream (`modules.streams.credit`). KubeEdge's protocol has no
credit: under its cloud a stream that is full of bytes for a container holds up the tunnel for a moment, and is removed
if it takes nothing then.

Every stream that the cloud asks for ends with exactly one frame `remove`, however it ends: KubeEdge's callers hang
without one. A reason in it is ours; KubeEdge ignores it.
"""

from __future__ import annotations

import logging
import select
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from beehive import Clock
from beehive.errors import BeehiveError
from beehive.http.errors import HttpError
from beehive.on_failure import on_failure
from beehive.wakeup import Wakeup
from modules.edge.edgestream.counters import StreamCounters
from modules.edge.edgestream.routes import check, refusal
from modules.edge.edgestream.stream import STALLED, Stream
from modules.edge.edgestream.tunnel import DialNode, TunnelLink
from modules.streams import connect
from modules.streams.connect import ConnectError, StreamRequest
from modules.streams.frames import (
    CONNECTS,
    MAX_DATA,
    SENT_DATA,
    Frame,
    FrameError,
    FrameType,
    credit_frame,
    credit_of,
    data_frames,
    decode,
)  # fmt: skip
from modules.streams.small_turns import SmallTurns
from modules.streams.waiting import MakePoll, new_poll

_log = logging.getLogger(__name__)

BUFFERS: Final = 16 * 1024 * 1024
"""Bytes on the way to the cloud, and as many for containers, that all streams share when they are many."""

_SMALL_RATE: Final = 1000
"""Reads of few bytes a second, for all streams together, each of which becomes a frame."""
_SMALL_BURST: Final = 200
"""Such reads at a time."""

_TOO_LONG: Final = -1
"""Type of a frame that was too long, which no frame on the wire can have."""
_LONGEST_REASON: Final = 300

MOST_BYTES: Final = 256 * 1024
"""Bytes that may wait; a single larger frame may be alone. Further frames wait in the network."""
_OVERHEAD: Final = 64
"""Bytes that a frame counts in addition to its data, so that empty frames are bounded too."""


class TunnelSession:
    """One tunnel, from dialling to its end (`TunnelEvents`); used once.

    Args:
        link: to the cloud.
        dial: connects to the node's own server.
        clock: for the time that a stream may hold up the tunnel.
        counters: of edgestream.
        most_streams: at one time.
        opened: called on the link's thread when the tunnel is up.
        make_poll: for the streams' thread.
    """

    def __init__(
        self,
        link: TunnelLink,
        dial: DialNode,
        clock: Clock,
        counters: StreamCounters,
        most_streams: int,
        opened: Callable[[], None],
        make_poll: MakePoll = new_poll,
    ) -> None:
        self._make_poll = make_poll
        self._most_streams = most_streams
        self._link = link
        self._dial = dial
        self._clock = clock
        self._counters = counters
        self._opened = opened
        self._intake = Intake()
        self._turns = SmallTurns(_SMALL_RATE, _SMALL_BURST)
        self._streams: dict[int, Stream] = {}
        self._sent: deque[Callable[[], None]] = deque()
        """For each frame that the cloud has not confirmed, the function that its confirmation calls."""
        self._is_open = False
        self._has_credit = False
        """Whether the cloud grants and takes credit."""
        self.complaint = ""
        """Why this side or the cloud gave up a tunnel that worked; empty otherwise."""

    def run(self) -> BeehiveError:
        """Dial and serve the tunnel until it ends, and return why; on the link's thread."""
        try:
            return self._link.run(self)
        finally:
            self._intake.close()
            if not self._is_open:
                self._intake.release()

    def serve(self) -> None:
        """Serve the streams until the tunnel ends, and close them all; on the streams' thread."""
        try:
            while True:
                patience = self._handle_frames()  # clears the wakeup; later frames set it again
                if self._intake.closed:
                    return
                self._poll(patience)
        finally:
            for number in list(self._streams):
                self._forget(number)
            self._intake.release()

    def close(self) -> None:
        """End the tunnel; any thread."""
        self._intake.close()
        self._link.close()

    def opened(self) -> None:
        """Begin to serve streams."""
        self._opened()
        self._is_open = True

    def received(self, frame: bytes) -> None:
        """Take a frame of the cloud."""
        try:
            read = decode(frame)
        except FrameError as error:
            self._give_up(f"the cloud sent what is no frame: {error}")
            return
        if read.kind == FrameType.CLOSE:
            self._give_up(f"the cloud closed the tunnel: {_printable(read.data)}")
        elif len(read.data) > MAX_DATA:
            self._intake.put(Frame(read.connection, _TOO_LONG))
        else:
            self._intake.put(read)

    def skipped(self, head: bytes, size: int) -> None:
        """Remove the stream that a discarded frame belongs to; its bytes are lost."""
        try:
            self._intake.put(Frame(decode(head).connection, _TOO_LONG))
        except FrameError as error:
            self._give_up(f"the cloud sent {size} bytes that are no frame: {error}")

    def confirmed(self, frames: int) -> None:
        """Let the streams go on whose frames the cloud has read."""
        self._intake.confirm(frames)

    def _give_up(self, why: str) -> None:
        self.complaint = why
        self._link.close()

    def _handle_frames(self) -> float | None:
        """Handle the frames that wait; return the seconds after which the first of them has waited too long for its
        stream to take bytes, None if none waits.
        """
        for _ in range(self._intake.drain_confirmed()):
            self._sent.popleft()()
        while (frame := self._intake.head()) is not None:
            stream = self._streams.get(frame.connection)
            if frame.kind == FrameType.DATA and stream is not None and stream.is_full(self._share()):
                left = self._patience(stream)
                if left > 0:
                    return left
                self._end(stream, "the container takes no bytes, and held up the other streams")
            self._intake.drop_head()
            self._handle(frame)
        return None

    def _patience(self, stream: Stream) -> float:
        """Return how much longer a full stream may hold up the tunnel."""
        now = self._clock.monotonic()
        if stream.stalled_since is None:
            stream.stalled_since = now
        return stream.stalled_since + STALLED - now

    def _handle(self, frame: Frame) -> None:
        stream = self._streams.get(frame.connection)
        if frame.kind in CONNECTS:
            self._open(FrameType(frame.kind), frame)
        elif frame.kind == FrameType.CREDIT and not frame.connection:
            self._has_credit = True
        elif stream is None:
            _log.debug("a frame of type %d for stream %d, which is not open", frame.kind, frame.connection)
        elif frame.kind == FrameType.DATA:
            self._counters.received += len(frame.data)
            stream.hold(frame.data)
            self._grant(stream)
        elif frame.kind == FrameType.CREDIT:
            self._granted(stream, frame)
        elif frame.kind == FrameType.REMOVE:
            stream.write()  # what came just before
            self._end(stream)
        elif frame.kind == _TOO_LONG:
            self._end(stream, f"a frame had more than {MAX_DATA} bytes of data")
        else:
            _log.debug("a frame of the unknown type %d", frame.kind)

    def _open(self, kind: FrameType, frame: Frame) -> None:
        number = frame.connection
        if number in self._streams or not number:
            _log.warning("the cloud opens stream %d, which is open already or none", number)
            return
        try:
            request = connect.decode(frame.data)
            if request.connection != number:
                raise ConnectError(f"the request is for stream {request.connection}, its frame for {number}")
            check(kind, request)
            if len(self._streams) >= self._most_streams:
                why = f"{self._most_streams} streams of this node are open (modules.edgeStream.maxStreams)"
                self._refuse(kind, number, "503 Service Unavailable", why)
                return
            self._streams[number] = self._connected(kind, request)
        except (ConnectError, HttpError) as error:
            self._refuse(kind, number, "403 Forbidden", str(error))
        except OSError as error:
            why = f"the node's own server cannot be reached: {error.strerror or error}; is modules.edged enabled?"
            self._refuse(kind, number, "502 Bad Gateway", why)
        else:
            self._counters.opened[kind] += 1
            self._counters.open[kind] += 1
            _log.debug("stream %d begins: %s %s", number, kind.name.lower(), request.target.partition("?")[0])

    def _granted(self, stream: Stream, frame: Frame) -> None:
        try:
            stream.granted(credit_of(frame))
        except FrameError as error:
            self._end(stream, f"the cloud granted what is no number: {error}")

    def _grant(self, stream: Stream) -> None:
        """Let the cloud send as much as the container has taken."""
        if size := stream.grant(self._share()):
            self._send(credit_frame(stream.number, size))

    def _connected(self, kind: FrameType, request: StreamRequest) -> Stream:
        local = self._dial()
        with on_failure(local.close):
            return Stream(kind, request, local, has_credit=self._has_credit)

    def _refuse(self, kind: FrameType, number: int, status: str, why: str) -> None:
        _log.warning("a stream that the cloud asks for is refused: %s", why)
        self._counters.refused += 1
        for frame in data_frames(number, refusal(kind, status, why)):
            self._send(frame)
        self._send(Frame(number, FrameType.REMOVE, why.encode()[:_LONGEST_REASON]))

    def _end(self, stream: Stream, why: str = "") -> None:
        """Remove a stream; `why` is empty if it has ended properly."""
        if why:
            _log.info("stream %d is removed: %s", stream.number, why)
            self._counters.broken += 1
        self._forget(stream.number)
        self._send(Frame(stream.number, FrameType.REMOVE, why.encode()[:_LONGEST_REASON]))

    def _forget(self, number: int) -> None:
        stream = self._streams.pop(number)
        stream.local.close()
        self._counters.open[stream.kind] -= 1

    def _send(self, frame: Frame, confirm: Callable[[], None] = lambda: None) -> None:
        self._sent.append(confirm)
        self._link.send(frame.encode())

    def _poll(self, patience: float | None) -> None:
        """Wait until a stream can go on, a frame comes, or the time is over; serve the streams that can."""
        poll = self._make_poll()
        poll.register(self._intake.wakeup, select.POLLIN)
        waiting: dict[int, Stream] = {}
        share, now = self._share(), self._clock.monotonic()
        rests = [stream.rests_until - now for stream in self._streams.values() if stream.rests_until > now]
        patience = min(rests if patience is None else [patience, *rests], default=None)
        for stream in self._streams.values():
            if events := stream.events(share, rests=stream.rests_until > now):
                waiting[stream.local.fileno()] = stream
                poll.register(stream.local.fileno(), events)
        for descriptor, ready in poll.poll(None if patience is None else patience * 1000 + 1):
            if descriptor in waiting:
                self._serve_stream(waiting[descriptor], ready)

    def _share(self) -> int:
        """Return the bytes of `BUFFERS` that are for one stream; at least one frame."""
        return max(SENT_DATA, BUFFERS // max(1, len(self._streams)))

    def _serve_stream(self, stream: Stream, events: int) -> None:
        broken = select.POLLHUP | select.POLLERR
        if events & (select.POLLOUT | broken):
            stream.write()
            self._grant(stream)
        if not events & (select.POLLIN | broken):
            return
        data, end = stream.read()
        if data:
            now = self._clock.monotonic()
            stream.rests_until = now + self._turns.charge(len(data), now)
        for frame in data_frames(stream.number, data):
            stream.sent(len(frame.data))
            self._counters.sent += len(frame.data)
            self._send(frame, partial(_confirm, stream, len(frame.data)))
        if end is not None:
            self._end(stream, end)


def _confirm(stream: Stream, size: int) -> None:
    stream.unconfirmed -= size


def _printable(text: bytes) -> str:
    return "".join(char if char.isprintable() else "?" for char in text[:_LONGEST_REASON].decode("utf-8", "replace"))


class Intake:
    """A bounded queue of frames, and a count of confirmed ones that passes it by."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._frames: deque[Frame] = deque()
        self._bytes = 0
        self._confirmed = 0
        self.wakeup = Wakeup()
        """Set when there is something new."""
        self.closed = False
        """Set by `close`."""

    def put(self, frame: Frame) -> None:
        """Append a frame; waits while too many bytes wait, and drops it once the intake is closed."""
        size = len(frame.data) + _OVERHEAD
        with self._changed:
            while self._bytes and self._bytes + size > MOST_BYTES and not self.closed:
                self._changed.wait()
            if self.closed:
                return
            self._frames.append(frame)
            self._bytes += size
            self.wakeup.wake()

    def confirm(self, frames: int) -> None:
        """Count frames that the cloud has read."""
        with self._changed:
            self._confirmed += frames
            self.wakeup.wake()

    def close(self) -> None:
        """Wake all waiting threads; any thread may call it."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()
            self.wakeup.wake()

    def head(self) -> Frame | None:
        """Return the first frame, which stays; None without one."""
        with self._changed:
            return self._frames[0] if self._frames else None

    def drop_head(self) -> None:
        """Remove the first frame."""
        with self._changed:
            self._bytes -= len(self._frames.popleft().data) + _OVERHEAD
            self._changed.notify_all()

    def drain_confirmed(self) -> int:
        """Return how many more frames the cloud has read, and reset the wakeup."""
        with self._changed:
            self.wakeup.clear()
            confirmed, self._confirmed = self._confirmed, 0
            return confirmed

    def release(self) -> None:
        """Close the wakeup; idempotent."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()
            self.wakeup.close()

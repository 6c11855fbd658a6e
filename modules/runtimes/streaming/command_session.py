"""One command and the client that uses its streams, served on one thread.

Nothing piles up: a command is not read while its client is behind, a client is not read while the command does not
take its input. An attached container must not wait for a client, because its log waits with it: a client that stays
behind is left (`STALL_SECONDS`).
"""

import logging
import os
import re
import select
from contextlib import closing, suppress
from typing import Final

from beehive import Clock
from beehive.printable import clipped
from modules.runtimes.engine.errors import RequestRefusedError
from modules.runtimes.streaming.backend import StreamingBackend, StreamProcess
from modules.runtimes.streaming.channels import (
    ChannelData,
    ChannelEnd,
    ChannelEvent,
    CommandChannels,
    StreamChannel,
    exit_status,
    failure,
)
from modules.runtimes.streaming.ending import IDLE_SECONDS, MOST_ANSWERS, linger
from modules.runtimes.streaming.requests import StreamRequest

_log = logging.getLogger(__name__)

OPEN_SECONDS: Final = 30.0
"""Seconds that a client has to open its streams."""
MOST_BEHIND: Final = 256 * 1024
"""Bytes of output that are held for a client."""
STALL_SECONDS: Final = 5.0
"""Seconds that a client of an attached container may be behind by `MOST_BEHIND`."""

_MOST_INPUT: Final = 256 * 1024
"""Bytes of input that are held for a command."""
_READ_BYTES: Final = 32 * 1024
_PIECE: Final = 8 * 1024
"""Bytes of input in one write, a packet of conmon's."""
_MOST_AT_THE_END: Final = 1 << 20
"""Most bytes that are read after a command's end; its children may write for ever."""
_SIZE: Final = re.compile(rb'\s*\{\s*"Width"\s*:\s*(\d{1,5})\s*,\s*"Height"\s*:\s*(\d{1,5})\s*')
_LONGEST_SIZE: Final = 256
_PACKET_CHANNELS: Final = {2: StreamChannel.STDOUT, 3: StreamChannel.STDERR}


class CommandSession:
    """The session that serves a client's streams.

    Args:
        channels: to the client.
        request: the command and the streams that the client may have.
        backend: runs the command.
        clock: for deadlines.
    """

    def __init__(
        self, channels: CommandChannels, request: StreamRequest, backend: StreamingBackend, clock: Clock
    ) -> None:
        self._channels = channels
        self._link = channels.link
        self._request = request
        self._backend = backend
        self._clock = clock
        self._early: list[ChannelEvent] = []

    def run(self) -> None:
        """Serve until the command ends or the client goes. Raises ValueError when the client is not understood."""
        if not self._await_streams():
            return
        try:
            process = self._start()
        except (RequestRefusedError, OSError) as error:
            _log.info("the %s of a client was refused: %s", self._request.kind, clipped(str(error)))
            self._channels.finish(failure(str(error)))
            is_over = True
        else:
            with closing(process):
                is_over = _ProcessStreams(process, self._channels, self._request, self._clock).serve(self._early)
        linger(self._link, self._clock, whole=is_over)

    def _start(self) -> StreamProcess:
        request = self._request
        if request.kind == "exec":
            return self._backend.exec(request.target, request.command, tty=request.tty, stdin=request.stdin)
        return self._backend.attach(request.target, tty=request.tty, stdin=request.stdin)

    def _await_streams(self) -> bool:
        """Wait until the client has opened its streams; keep its input meanwhile."""
        deadline = self._clock.monotonic() + OPEN_SECONDS
        poll = select.poll()
        poll.register(self._link, select.POLLIN)
        held = 0
        while not self._channels.complete:
            self._link.send()
            left = deadline - self._clock.monotonic()
            if self._link.unsent > MOST_ANSWERS or held > _MOST_INPUT or left <= 0:
                return False
            if not (self._link.has_received or poll.poll(left * 1000)):
                return False
            events = self._channels.receive()
            if events is None:
                return False
            self._early += events
            held += sum(len(event.data) for event in events if isinstance(event, ChannelData))
        return True


class _ProcessStreams:
    """The loop between a command and its client."""

    def __init__(self, process: StreamProcess, channels: CommandChannels, request: StreamRequest, clock: Clock) -> None:
        self._process = process
        self._channels = channels
        self._link = channels.link
        self._clock = clock
        self._is_attached = request.kind == "attach"
        self._input = bytearray()
        self._input_ends = False
        self._stdin = process.stdin if request.stdin else None
        self._sizes = bytearray()
        outputs = {process.stdout: StreamChannel.STDOUT, process.stderr: StreamChannel.STDERR}
        self._outputs = {descriptor: channel for descriptor, channel in outputs.items() if descriptor is not None}
        self._is_over = False
        self._stalled: float | None = None
        self._last = clock.monotonic()

    def serve(self, early: list[ChannelEvent]) -> bool:
        """Serve until the command or its client's part in it ends, or the client goes or is given up; return whether it
        was an end.
        """
        for descriptor in {*self._outputs, *([self._stdin] if self._stdin is not None else [])}:
            os.set_blocking(descriptor, False)
        self._handle(early)
        try:
            while not self._is_over and self._step():
                pass
        finally:
            if not self._is_over:
                self._process.kill()
                self._process.wait()
        if self._is_over:
            self._channels.finish(exit_status(self._process.wait()))
        return self._is_over

    def _step(self) -> bool:
        """Wait once, and copy the bytes that can be copied; return False when the client has closed or is given up."""
        self._link.send()
        left = self._seconds_left()
        if left <= 0:
            return False
        ready = dict(self._poll().poll(0 if self._link.has_received else left * 1000))
        if ready or self._link.has_received:
            self._last = self._clock.monotonic()
        if self._stdin is not None and ready.get(self._stdin, 0) & (select.POLLOUT | select.POLLERR):
            self._write_input()
        for descriptor in [each for each in self._outputs if ready.get(each, 0) & ~select.POLLOUT]:
            self._read_output(descriptor)
        if self._process.ended is not None and self._process.ended in ready:
            self._read_the_rest()
        elif not self._outputs and self._process.ended is None:
            self._is_over = True
        if self._link.has_received or ready.get(self._link.fileno(), 0) & ~select.POLLOUT:
            events = self._channels.receive()
            if events is None:
                return False
            self._handle(events)
        return True

    def _poll(self) -> "select.poll":
        interests: dict[int, int] = {}
        takes_input = len(self._input) < _MOST_INPUT and self._link.unsent < MOST_ANSWERS
        interests[self._link.fileno()] = (select.POLLIN if takes_input else 0) | (
            select.POLLOUT if self._link.unsent else 0
        )
        if self._link.unsent < MOST_BEHIND:
            interests |= dict.fromkeys(self._outputs, select.POLLIN)
        if self._stdin is not None and self._input:
            interests[self._stdin] = interests.get(self._stdin, 0) | select.POLLOUT
        if self._process.ended is not None:
            interests[self._process.ended] = select.POLLIN
        poll = select.poll()
        for descriptor, events in interests.items():
            poll.register(descriptor, events)
        return poll

    def _seconds_left(self) -> float:
        now = self._clock.monotonic()
        left = self._last + IDLE_SECONDS - now
        if not self._is_attached or self._link.unsent < MOST_BEHIND // 2:
            self._stalled = None
        elif self._stalled is None and self._link.unsent >= MOST_BEHIND:
            self._stalled = now
        if self._stalled is None:
            return left
        return min(left, self._stalled + STALL_SECONDS - now)

    def _handle(self, events: list[ChannelEvent]) -> None:
        for event in events:
            match event:
                case ChannelData(StreamChannel.STDIN, data) if self._stdin is not None:
                    self._input += data
                case ChannelEnd(StreamChannel.STDIN):
                    self._input_ends = True
                case ChannelData(StreamChannel.RESIZE, data):
                    self._resize(data)
        if self._input_ends and not self._input:
            self._end_input()

    def _resize(self, data: bytes) -> None:
        self._sizes += data
        while (end := self._sizes.find(b"}")) >= 0:
            size = _SIZE.fullmatch(self._sizes[:end])
            del self._sizes[: end + 1]
            width, height = (int(size[1]), int(size[2])) if size else (0, 0)
            if 0 < width < 65_536 and 0 < height < 65_536:
                with suppress(OSError):  # the command has ended
                    self._process.resize(width, height)
        del self._sizes[:-_LONGEST_SIZE]

    def _write_input(self) -> None:
        assert self._stdin is not None  # noqa: S101 - polled only then
        try:
            while self._input:
                del self._input[: os.write(self._stdin, memoryview(self._input)[:_PIECE].tobytes())]
        except BlockingIOError:
            return
        except OSError:  # the command reads no more
            self._stdin = None
            self._input.clear()
            return
        if self._input_ends:
            self._end_input()

    def _end_input(self) -> None:
        if self._stdin is not None:
            self._stdin = None
            with suppress(OSError):
                self._process.close_stdin()
            if self._process.ends_with_stdin:
                self._read_the_rest()

    def _read_output(self, descriptor: int) -> int:
        """Read once; return how many bytes came, or -1."""
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return -1
        except OSError:  # EIO: nobody has the terminal now
            data = b""
        channel = self._outputs[descriptor]
        if not data:
            del self._outputs[descriptor]
        elif not self._process.packets:
            self._channels.write(channel, data)
        elif data[0] in _PACKET_CHANNELS:
            self._channels.write(_PACKET_CHANNELS[data[0]], data[1:])
        return len(data)

    def _read_the_rest(self) -> None:
        """Read the output that is there at the end of the command or of the client's part in it."""
        left = _MOST_AT_THE_END
        for descriptor in list(self._outputs):
            while left > 0 and (count := self._read_output(descriptor)) > 0:
                left -= count
        self._is_over = True

"""The output of a command in a container, gathered until it ends or its time has passed.

poll(2) waits in real time, because it waits for the pipes of real processes too (see `process_watcher` beside this
module, also for the threads).
"""

import contextlib
import os
import select
import threading
from collections.abc import Sequence
from typing import Final

from beehive.clock import Clock
from beehive.wakeup import Wakeup

OUTPUT_LIMIT = 16 * 1024 * 1024 - 64 * 1024
"""Bytes kept of both streams together: CRI's 16 MiB, less room for the rest of the message."""

SHARED_LIMIT: Final = 2 * OUTPUT_LIMIT
"""Bytes kept of all commands together, beyond `OWN_BYTES` of each: probes whose commands write without end are as many
as the pods of a node."""
OWN_BYTES: Final = 64 * 1024
"""Bytes that every command may have kept, however many commands run."""

_CHUNK = 64 * 1024
_LARGEST_PIPE = 1024 * 1024
"""Bytes that a pipe can hold at most (fs.pipe-max-size): more output was written after the command's end."""
_LONGEST_SECONDS = 2_000_000.0
"""poll(2) counts milliseconds in 31 bits."""


class OutputRoom:
    """The bytes of output that the commands of this process may have kept together; any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left = SHARED_LIMIT

    def reserve(self, size: int) -> int:
        """Return how many bytes of `size` there is room for; they are reserved."""
        with self._lock:
            taken = min(size, self._left)
            self._left -= taken
        return taken

    def give_back(self, size: int) -> None:
        """Return bytes that were taken."""
        with self._lock:
            self._left += size


_SHARED: Final = OutputRoom()
"""Of this process, because its memory is."""


class CommandRoom:
    """Room for one command's output. `close` returns what it took of the shared room."""

    def __init__(self, shared: OutputRoom = _SHARED) -> None:
        self._shared = shared
        self._kept = self._taken = 0

    def grant(self, size: int) -> int:
        """Return how many of the next `size` bytes may be kept; they count as kept."""
        wanted = min(size, OUTPUT_LIMIT - self._kept)
        own = min(wanted, max(0, OWN_BYTES - self._kept))
        shared = self._shared.reserve(wanted - own)
        self._taken += shared
        self._kept += own + shared
        return own + shared

    def close(self) -> None:
        """Return what was taken; once."""
        self._shared.give_back(self._taken)


class _Stream:
    """One pipe and its output so far. `kept_open` and `handed_on` close its ends."""

    def __init__(self, kept_open: contextlib.ExitStack, handed_on: contextlib.ExitStack) -> None:
        self.kept = bytearray()
        self.read_end, self.write_end = os.pipe2(os.O_CLOEXEC)
        kept_open.callback(os.close, self.read_end)
        handed_on.callback(os.close, self.write_end)
        os.set_blocking(self.read_end, False)

    def pump(self, room: CommandRoom) -> bool:
        """Read one chunk and keep what there is room for; return False when the pipe is empty or closed."""
        try:
            chunk = os.read(self.read_end, _CHUNK)
        except BlockingIOError:
            return False
        self.kept += chunk[: room.grant(len(chunk))]
        return bool(chunk)


class CommandOutput:
    """Both pipes of a command. `kept_open` closes the descriptors that edgecore needs, `handed_on` the ones only for
    the command.

    It takes five descriptors, and the stacks close those it has opened when it cannot get the next.
    """

    def __init__(self, kept_open: contextlib.ExitStack, handed_on: contextlib.ExitStack, clock: Clock) -> None:
        self._clock = clock
        self._stdout, self._stderr = (_Stream(kept_open, handed_on) for _ in range(2))
        self._room = CommandRoom()
        kept_open.callback(self._room.close)
        self._wakeup = Wakeup()
        kept_open.callback(self._wakeup.close)

    @property
    def write_ends(self) -> tuple[int, int]:
        """The descriptors for the command's standard output and error."""
        return self._stdout.write_end, self._stderr.write_end

    @property
    def stdout(self) -> bytearray:
        """The standard output received so far."""
        return self._stdout.kept

    @property
    def stderr(self) -> bytearray:
        """The standard error received so far."""
        return self._stderr.kept

    def wake(self) -> None:
        """End `gather`: the command has ended, or the client has given up."""
        self._wakeup.wake()

    def gather(self, seconds: float | None, ends: Sequence[int] = ()) -> None:
        """Keep the output until `wake` is called, one of the descriptors in `ends` is readable, or the time has passed.

        Only output that is in the pipes when the command ends counts: a process left behind may hold them open for
        ever.
        """
        deadline = None if seconds is None else self._clock.monotonic() + seconds
        poll = select.poll()
        streams = {each.read_end: each for each in (self._stdout, self._stderr)}
        stops = {self._wakeup.fileno(), *ends}
        for descriptor in (*streams, *stops):
            poll.register(descriptor, select.POLLIN)
        while True:
            left = (
                None if deadline is None else min(max(0.0, deadline - self._clock.monotonic()), _LONGEST_SECONDS) * 1000
            )
            ready = [descriptor for descriptor, _ in poll.poll(left)]
            if not ready or stops.intersection(ready):
                break
            for descriptor in ready:
                if not streams[descriptor].pump(self._room):
                    poll.unregister(descriptor)
        for stream in streams.values():
            for _ in range(_LARGEST_PIPE // _CHUNK):
                if not stream.pump(self._room):
                    break

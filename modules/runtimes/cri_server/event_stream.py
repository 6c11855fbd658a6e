"""The stream of container events (GetContainerEvents), which spares the client from relisting."""

import queue
import threading
from collections.abc import Callable, Iterator

from modules.runtimes.cri_server.errors import TooManyError
from protos.cri.v1 import api_pb2 as cri

_BACKLOG = 1000
"""Largest number of events that wait for one reader. A slower reader is disconnected, and has to list again anyway."""

STREAM_LIMIT = 4
"""Largest number of readers; each occupies a thread of the server."""


class EventHub:
    """Passes each event on to every open stream."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: set[EventStream] = set()

    def publish(self, event: cri.ContainerEventResponse) -> None:
        """Pass `event` on; never waits."""
        with self._lock:
            for stream in self._streams:
                stream.put(event)

    @property
    def has_readers(self) -> bool:
        """Whether any stream is open, so that events are needed."""
        return bool(self._streams)

    def subscribe(self) -> "EventStream":
        """Return a stream of the events from now on. Raises TooManyError."""
        with self._lock:
            if len(self._streams) >= STREAM_LIMIT:
                raise TooManyError("stream container events", f"{STREAM_LIMIT} streams are open already")
            stream = EventStream(self._unsubscribe)
            self._streams.add(stream)
            return stream

    def close(self) -> None:
        """End all streams."""
        with self._lock:
            for stream in self._streams:
                stream.close()

    def _unsubscribe(self, stream: "EventStream") -> None:
        with self._lock:
            self._streams.discard(stream)


class EventStream:
    """The queued events of one reader."""

    def __init__(self, on_end: Callable[["EventStream"], None]) -> None:
        self._queue: queue.SimpleQueue[cri.ContainerEventResponse | None] = queue.SimpleQueue()
        self._on_end = on_end
        self._overrun = False

    def put(self, event: cri.ContainerEventResponse) -> None:
        """Add an event, or disconnect the reader if too many events wait for it."""
        if self._queue.qsize() < _BACKLOG:
            self._queue.put(event)
        elif not self._overrun:
            self._overrun = True
            self.close()

    def close(self) -> None:
        """End the stream after the events queued so far."""
        self._queue.put(None)

    def __iter__(self) -> Iterator[cri.ContainerEventResponse]:
        """Yield events as they come, until closed. Raises TooManyError for a disconnected reader."""
        try:
            while (event := self._queue.get()) is not None:
                yield event
        finally:
            self._on_end(self)
        if self._overrun:
            reason = f"the reader was more than {_BACKLOG} events behind"
            raise TooManyError("stream container events", reason, "list, then stream again")

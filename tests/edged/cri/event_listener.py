"""Listens to a runtime's events on a thread of its own."""

import queue
import threading
from concurrent.futures import ThreadPoolExecutor

from edged.cri.contract import ContainerRuntime
from protos.cri.v1 import api_pb2 as pb
from tests.support.patience import PATIENCE


class EventListener:
    """Listens from the beginning until the stream ends."""

    def __init__(self, runtime: ContainerRuntime) -> None:
        self._opened = threading.Event()
        self._events: queue.SimpleQueue[pb.ContainerEventResponse] = queue.SimpleQueue()
        self._threads = ThreadPoolExecutor(1)
        self._stream = self._threads.submit(runtime.container_events, self._opened.set, self._events.put)

    def wait_opened(self) -> None:
        """Wait until nothing is missed any more."""
        assert self._opened.wait(PATIENCE)

    def next(self) -> pb.ContainerEventResponse:
        """The next event."""
        return self._events.get(timeout=PATIENCE)

    def until(self, kind: pb.ContainerEventType.ValueType, subject: str) -> pb.ContainerEventResponse:
        """The next event of a kind about one container or sandbox."""
        while True:
            event = self.next()
            if (event.container_event_type, event.container_id) == (kind, subject):
                return event

    def error(self) -> BaseException | None:
        """Return the error that ended the stream."""
        error = self._stream.exception(PATIENCE)
        self._threads.shutdown()
        return error

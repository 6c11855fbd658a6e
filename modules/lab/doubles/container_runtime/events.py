"""The event streams of the fake runtime."""

from collections.abc import Callable
from typing import NoReturn

import grpc

from beehive.inbox import Queue
from edged.cri.errors import CriError, UnavailableError, UnimplementedError
from modules.lab.doubles.container_runtime.core import FakeCore, closed
from protos.cri.v1 import api_pb2 as pb


class FakeEvents(FakeCore):
    """The event streams: each client gets the events since its request."""

    def container_events(
        self, opened: Callable[[], None], happened: Callable[[pb.ContainerEventResponse], None]
    ) -> NoReturn:
        """See the contract; called back on the caller's thread."""
        error = self._begin("container_events")
        if not self.serves_events:
            text = "unknown method GetContainerEvents"
            raise UnimplementedError("GetContainerEvents", "", grpc.StatusCode.UNIMPLEMENTED, text)
        if error is not None:
            raise error
        stream: Queue = self._actors.queue()
        with self._lock:
            self._streams.append(stream)
            self._own_streams.append(stream)
            stream.put(closed("GetContainerEvents") if self._closed else None)
        try:
            self._read(stream, opened, happened)
        finally:
            self._drop(stream)

    def cut_events(self) -> None:
        """End every stream, as at a restart of the runtime."""
        error = UnavailableError("GetContainerEvents", "", grpc.StatusCode.UNAVAILABLE, "the stream was cut")
        with self._lock:
            for stream in self._streams:
                stream.put(error)

    def close(self) -> None:
        """Make the calls under way on this client fail; their effects go on in the runtime."""
        super().close()
        with self._lock:
            for stream in self._own_streams:
                stream.put(closed("GetContainerEvents"))

    def _deliver(self, event: pb.ContainerEventResponse) -> None:
        with self._lock:
            for stream in self._streams:
                stream.put(event)

    def _drop(self, stream: Queue) -> None:
        with self._lock:
            self._own_streams.remove(stream)
            if stream in self._streams:
                self._streams.remove(stream)

    @staticmethod
    def _read(
        stream: Queue, opened: Callable[[], None], happened: Callable[[pb.ContainerEventResponse], None]
    ) -> NoReturn:
        while True:
            item = stream.get()
            if isinstance(item, CriError):
                raise item
            if item is None:
                opened()
            else:
                happened(item)

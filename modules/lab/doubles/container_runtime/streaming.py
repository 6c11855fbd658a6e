"""The streaming calls of the fake runtime: URLs of a server that the test brings."""

from collections.abc import Sequence

from edged.cri.contract import ContainerId, SandboxId, StreamingUrl, Streams
from modules.lab.doubles.container_runtime.core import FakeCore, Shared, call, not_found


class FakeStreaming(FakeCore):
    """The methods that return streaming URLs."""

    streaming_url = Shared("http://127.0.0.1:1/token")
    """The returned URL; by default of no server."""

    asked = Shared[tuple[object, ...]](())
    """Arguments of the last call: a command and its streams, or ports."""

    @call
    def exec_url(self, container_id: ContainerId, command: Sequence[str], streams: Streams) -> StreamingUrl:
        with self._lock:
            self._container("Exec", container_id)
            self.asked = (container_id, tuple(command), streams)
        return StreamingUrl(self.streaming_url)

    @call
    def attach_url(self, container_id: ContainerId, streams: Streams) -> StreamingUrl:
        with self._lock:
            self._container("Attach", container_id)
            self.asked = (container_id, streams)
        return StreamingUrl(self.streaming_url)

    @call
    def port_forward_url(self, sandbox_id: SandboxId, ports: Sequence[int]) -> StreamingUrl:
        with self._lock:
            if sandbox_id not in self.sandboxes:
                raise not_found("PortForward", sandbox_id)
            self.asked = (sandbox_id, tuple(ports))
        return StreamingUrl(self.streaming_url)

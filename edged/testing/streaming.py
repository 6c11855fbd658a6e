"""The streams of processes in containers: addresses of a streaming server that the test brings."""

from collections.abc import Sequence

from edged.cri.contract import ContainerId, SandboxId, StreamingUrl, Streams
from edged.testing.core import Core, Shared, call, not_found


class Streaming(Core):
    """See the module's docstring."""

    streaming_url = Shared("http://127.0.0.1:1/token")
    """What is answered; by default the address of nobody."""

    asked = Shared[tuple[object, ...]](())
    """What was asked for last: a command and its streams, or ports."""

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

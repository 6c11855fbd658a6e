"""The fake runtime, assembled."""

import json
from collections.abc import Sequence

from edged.cri.contract import ContainerId, SandboxId, StreamingUrl, Streams
from modules.lab.doubles.container_runtime.containers import FakeContainers
from modules.lab.doubles.container_runtime.core import FakeCore, Shared, call, not_found
from modules.lab.doubles.container_runtime.events import FakeEvents
from modules.lab.doubles.container_runtime.images import FakeImages
from modules.lab.doubles.container_runtime.sandboxes import FakeSandboxes
from protos.cri.v1 import api_pb2 as pb


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


class FakeRuntime(FakeSandboxes, FakeContainers, FakeImages, FakeStreaming, FakeEvents):
    """A container runtime in memory (see the package). It is the runtime and one client of it; `connect` returns
    others.

        runtime = FakeRuntime(actors, images=["busybox"])
        runtime.fail("start_container", error, times=2)
        runtime.end("main", exit_code=1)

    Args:
        actors: source of time and futures.
        images: names of images that are present; others are pulled on request.
    """

    @call
    def version(self) -> pb.VersionResponse:
        return pb.VersionResponse(version="0.1.0", runtime_name="fake", runtime_version="1.0", runtime_api_version="v1")

    @call
    def status(self, *, verbose: bool = False) -> pb.StatusResponse:
        conditions = [pb.RuntimeCondition(type=kind, status=True) for kind in ("RuntimeReady", "NetworkReady")]
        answer = pb.StatusResponse(status=pb.RuntimeStatus(conditions=conditions))
        if verbose and self.sandbox_image:
            answer.info["config"] = json.dumps({"sandboxImage": self.sandbox_image})
        return answer

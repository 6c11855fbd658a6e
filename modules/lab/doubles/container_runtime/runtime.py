"""The fake runtime, assembled."""

import json

from modules.lab.doubles.container_runtime.containers import FakeContainers
from modules.lab.doubles.container_runtime.core import call
from modules.lab.doubles.container_runtime.events import FakeEvents
from modules.lab.doubles.container_runtime.images import FakeImages
from modules.lab.doubles.container_runtime.sandboxes import FakeSandboxes
from modules.lab.doubles.container_runtime.streaming import FakeStreaming
from protos.cri.v1 import api_pb2 as pb


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

"""The runtime in memory, put together."""

import json

from edged.testing.containers import Containers
from edged.testing.core import call
from edged.testing.events import Events
from edged.testing.images import Images
from edged.testing.sandboxes import Sandboxes
from edged.testing.streaming import Streaming
from protos.cri.v1 import api_pb2 as pb


class FakeRuntime(Sandboxes, Containers, Images, Streaming, Events):
    """See the package's docstring. It is the runtime and one client of it; `connect` gives others.

    Args:
        actors: gives time, and futures to wait on.
        images: names of images that are present; others are pulled when asked for.
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

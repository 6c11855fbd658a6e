"""The requests of a recording, made to the API server of cloudcore."""

from typing import Any

from beehive.http.responses import Response, Stream
from modules.cloud.apiserver.admission.chain import PLUGINS
from modules.cloud.apiserver.api_calls import DryRunError, serve
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.pod_scheduler import Scheduling
from modules.cloud.apiserver.system_objects import make_system_objects
from modules.cloud.client.calls import ApiCall, ApiResult
from tests.modules.cloud.apiserver.endpoints.serving import Serving, read
from tests.modules.cloud.apiserver.reference.recordings import Answers, Request, body_bytes, normalized, warnings_of


class _Gone:
    """The client of a watch that goes after the objects that are there."""

    def gone_within(self, _seconds: float, _wake: int | None = None) -> bool:
        return True


class Player(Serving):
    """The API server with its admission plug-ins, and without controllers, as the kube-apiserver was."""

    def __init__(self) -> None:
        super().__init__(make_cluster=lambda clock: Cluster(clock, Scheduling(is_enabled=False), plugins=PLUGINS))
        self._answers = Answers()
        make_system_objects(self.cluster)
        self.noted()

    def noted(self) -> None:
        """Pass changes on, and keep them."""
        super().noted()
        self.cluster.storage.set_savepoint()

    def call(self, call: ApiCall) -> ApiResult:
        """Carry out a call; nothing of a dry run remains."""
        try:
            with self.cluster.within_quotas():
                return serve(self.cluster, call)
        except DryRunError as end:
            for event in self.cluster.storage.roll_back():
                self.cluster.quotas.roll_back(event)
            return end.result
        finally:
            self.noted()

    def play(self, request: Request) -> tuple[int, Any, tuple[str, ...]]:
        """Return the status of a request, the answer to it, and the texts of its warnings."""
        data = body_bytes(request.body)
        path = self._answers.filled(request.path)
        head = f"{request.method} {path} HTTP/1.1\r\nHost: x\r\nUser-Agent: kubectl/v1.32\r\n"
        head += f"Content-Length: {len(data)}\r\n"
        head += f"Content-Type: {request.media}\r\n" if request.media is not None else ""
        head += f"Accept: {request.accept}\r\n" if request.accept is not None else ""
        warnings: tuple[str, ...] = ()
        reply = self.service.serve(read(head.encode() + b"\r\n" + data))
        if isinstance(reply, Stream):
            status, answer = 200, b"".join(reply.pieces(_Gone()))
            reply.done()
        else:
            assert isinstance(reply, Response)
            status, answer = reply.status, reply.body
            warnings = warnings_of(value for name, value in reply.headers if name == "Warning")
        self._answers.note(answer)
        return status, normalized(request.body, answer), warnings

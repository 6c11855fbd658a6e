"""What the modules leave for the local server: snapshots of what is known, and the way to the container runtime.

A snapshot is replaced as a whole and never changed, so that a slow reader cannot hold up a module.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from grpc import StatusCode

from beehive import causes
from edged.api import Nanoseconds, NodeStatus, Pod
from edged.cri.contract import ContainerRuntime
from edged.cri.errors import CriError
from edged.node.status import Report, node_status, worth_sending
from edged.server.errors import RequestError
from edged.stats.provider import StatsProvider

ACTOR = "server"
"""Who calls the runtime, in traces: such a call is somebody's question, and no doing of edged's."""

_STATUS = {
    StatusCode.UNAVAILABLE: 503, StatusCode.NOT_FOUND: 404, StatusCode.UNIMPLEMENTED: 501,
    StatusCode.DEADLINE_EXCEEDED: 504, StatusCode.CANCELLED: 503, StatusCode.INVALID_ARGUMENT: 400,
}  # fmt: skip


class Snapshots:
    """Where the modules leave what is served."""

    node_status: NodeStatus | None = None
    """What edged says of the node, whether or not the cloud has heard it; None until it has looked at it."""

    listener: Callable[[], None] | None = None
    """Called on edged's thread whenever pods or node have changed; it must be quick."""

    _pods: tuple[Pod, ...] = ()

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The pods of this node, with the statuses that edged computed last."""
        return self._pods

    @pods.setter
    def pods(self, pods: tuple[Pod, ...]) -> None:
        self._pods = pods
        self._changed()

    def reported(self, report: Report, now: Nanoseconds) -> None:
        """What has been found of the node; a heartbeat alone is no other status."""
        status = node_status(report, self.node_status or NodeStatus(), now)
        if worth_sending(status, self.node_status):
            self.node_status = status
            self._changed()

    def _changed(self) -> None:
        listener = self.listener
        if listener is not None:
            listener()

    runtime: ContainerRuntime | None = None
    """What edged calls; None before its start and after its end."""

    stats: StatsProvider | None = None
    """Knows what is used; None where no edged runs."""

    looked_at: float | None = None
    """When a look at the runtime last came to its end, with an error or without; monotonic seconds."""

    @contextmanager
    def calling(self) -> Iterator[ContainerRuntime]:
        """The runtime, for calls of the server; what they raise becomes the answer.

        Raises:
            RequestError: 503 when edged does not run, or the status that says what the runtime said.
        """
        runtime = self.runtime
        if runtime is None:
            raise RequestError(503, "edged does not run", hint="it starts, or was stopped")
        with causes.acting_as(ACTOR):
            try:
                yield runtime
            except CriError as error:
                raise RequestError(_STATUS.get(error.code, 500), str(error)) from error

"""State that the modules leave for the local server."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from beehive import trace_context
from beehive.http.errors import HttpStatusError
from beehive.trace.secret_forms import without_forms
from edged.cri.contract import SERVER_ACTOR, ContainerRuntime
from edged.cri.errors import CriError
from edged.node.status import NodeReport, node_status, node_status_has_changed
from edged.pods.model import PodUid, WorkFigures
from edged.probes.model import ProbeCounts
from edged.stats.provider import StatsProvider
from modules.apimachinery.types import Nanoseconds, NodeStatus, Pod
from protos.status import StatusCode

_STATUS = {
    StatusCode.UNAVAILABLE: 503, StatusCode.NOT_FOUND: 404, StatusCode.UNIMPLEMENTED: 501,
    StatusCode.DEADLINE_EXCEEDED: 504, StatusCode.CANCELLED: 503, StatusCode.INVALID_ARGUMENT: 400,
}  # fmt: skip


class EdgedReports(Struct, frozen=True):
    """Reports of edged while it runs, on any thread."""

    work: Callable[[], WorkFigures]
    """Returns the figures of the pod workers' queues."""
    chain: Callable[[str, str], bytes | None]
    """Returns the chain of a pod by namespace and name, as JSON."""
    probes: Callable[[], Mapping[PodUid, ProbeCounts]]
    """Returns how often the probes of each pod had each outcome."""
    local_volumes: Callable[[], Mapping[Path, str]] = dict
    """Returns the names of pods' local volumes by their directories."""


class Snapshots:
    """Snapshots of pods and node, and the container runtime, left by the modules and read by the server's threads.

    A snapshot is replaced as a whole and never changed, so that a slow reader cannot block a module.
    """

    node_status: NodeStatus | None = None
    """The status of the node as edged last computed it; None before that. The cloud may not have received it."""

    runtime: ContainerRuntime | None = None
    """The runtime that edged uses; None before edged starts and after it stops."""

    stats: StatsProvider | None = None
    """Measures CPU, memory and disk; None where edged does not run."""

    reports: EdgedReports | None = None
    """Reports of edged; None where it does not run."""

    relisted_at: float | None = None
    """Monotonic seconds at the end of the last relist, with an error or without."""

    pods_are_complete = False
    """Whether `pods` has all pods of the node as they are: since edged started, their sources have sent them, and the
    runtime was asked for each."""

    def __init__(self, without_secrets: Callable[[str], str] = without_forms) -> None:
        self._pods: tuple[Pod, ...] = ()
        self.without_secrets = without_secrets
        """Returns a text for people without secrets, on any thread."""
        self._listeners: list[Callable[[], None]] = []

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call a function on edged's thread after each change of pods or node; it must be quick."""
        self._listeners.append(listener)

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The pods of this node, with the statuses that edged last computed."""
        return self._pods

    @pods.setter
    def pods(self, pods: tuple[Pod, ...]) -> None:
        self._pods = pods
        self._changed()

    def node_reported(self, report: NodeReport, now: Nanoseconds) -> None:
        """Keep the node's status from a report; a heartbeat alone does not change it."""
        status = node_status(report, self.node_status or NodeStatus(), now)
        if node_status_has_changed(status, self.node_status):
            self.node_status = status
            self._changed()

    def _changed(self) -> None:
        for listener in self._listeners:
            listener()

    @contextmanager
    def calling(self) -> Iterator[ContainerRuntime]:
        """Yield the runtime for calls of the server.

        Raises:
            HttpStatusError: 503 when edged does not run, or the HTTP status of the runtime's error.
        """
        runtime = self.runtime
        if runtime is None:
            raise HttpStatusError(503, "edged does not run", hint="it starts, or was stopped")
        with trace_context.acting_as(SERVER_ACTOR):
            try:
                yield runtime
            except CriError as error:
                raise HttpStatusError(_STATUS.get(error.code, 500), str(error)) from error

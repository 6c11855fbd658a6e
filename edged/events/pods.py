"""Events of pods, in kubelet's words."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from beehive.patterns import pattern
from edged.events.model import EventType
from edged.events.reasons import Reason
from edged.events.recorder import EventRecorder
from edged.pods.labels import ref_of
from modules.apimachinery.pods.node_conditions import is_ready
from modules.apimachinery.types import Pod, PodStatus
from modules.apimachinery.types.pod_status import ContainerStateTerminated, ContainerStatus

_ID: Final = pattern(r"(?<![0-9A-Za-z:])[0-9a-f]{64}(?![0-9A-Za-z])")
"""The id of a container or a sandbox, which is another one at each attempt. As in a kubelet (`recordContainerEvent`)
the container's name replaces it in the messages of Events, so that equal failures are one Event."""


class StatusStep(msgspec.Struct, frozen=True):
    """A step that no Event tells."""

    reason: str
    text: str
    container: str = ""
    is_warning: bool = False


def steps_between(before: PodStatus, after: PodStatus) -> Iterator[StatusStep]:
    """Yield the steps from a status to the next one.

    The message of a container that ended is left out: a program may have written a secret into it.
    """
    for known, now in ((before.init_container_statuses, after.init_container_statuses),
                       (before.container_statuses, after.container_statuses)):  # fmt: skip
        earlier = {each.name: each for each in known}
        for status in now:
            yield from _ended(earlier.get(status.name), status)
    was_ready, ready = is_ready(before), is_ready(after)
    if ready and not was_ready:
        yield StatusStep("Ready", "the pod is ready")
    elif was_ready and not ready:
        yield StatusStep("NotReady", "the pod is no longer ready")
    if after.phase == "Succeeded" and before.phase != after.phase:
        yield StatusStep("Succeeded", "all containers ended with exit code 0")
    elif after.phase == "Failed" and before.phase != after.phase:
        yield StatusStep("Failed", f"the pod has failed{_because(after.reason)}", is_warning=True)


def _ended(before: ContainerStatus | None, after: ContainerStatus) -> Iterator[StatusStep]:
    known = [] if before is None else [before.state.terminated, before.last_state.terminated]
    ids = {_identity(each) for each in known if each is not None}
    for ended in (after.last_state.terminated, after.state.terminated):
        if ended is not None and _identity(ended) not in ids:
            because = _because(ended.reason if ended.reason not in ("Error", "Completed") else "")
            text = f"container {after.name} ended with exit code {ended.exit_code}{because}"
            yield StatusStep("Ended", text, after.name, ended.exit_code != 0)


def _identity(ended: ContainerStateTerminated) -> tuple[str, object]:
    return ended.container_id, ended.finished_at if not ended.container_id else None


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""


NORMAL, WARNING = EventType.NORMAL, EventType.WARNING


class PodEvents:
    """The recorder of events of pods, one method for each event, and the steps between them, which are no Events.
    Thread-safe.

    Errors are quoted as in the pod's status. Output of hooks and probes never is: it may be a secret (a kubelet shows a
    probe's output, and no longer a hook's).
    """

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def accepted(self, pod: Pod) -> None:
        """Note the step: the agent has taken the pod, from the cloud, a file, or its own store after a restart."""
        self._recorder.step(ref_of(pod), "Taken", "the agent has the pod")

    def starting(self, pod: Pod) -> None:
        """Note the step: a worker has begun to start containers of the pod."""
        self._recorder.step(ref_of(pod), "Starting", "a worker starts what does not run yet")

    def volumes_ready(self, pod: Pod) -> None:
        """Note the step: the volumes of the pod are there."""
        names = ", ".join(volume.name for volume in pod.spec.volumes)
        if names:
            self._recorder.step(ref_of(pod), "VolumesReady", f"the volumes are there: {names}")

    def sandbox_made(self, pod: Pod) -> None:
        """Note the step: the sandbox was created."""
        self._recorder.step(ref_of(pod), "SandboxCreated", "the sandbox was created")

    def status_changed(self, pod: Pod, status: PodStatus) -> None:
        """Note the steps from the status of a pod to its next one."""
        for step in steps_between(pod.status, status):
            self._recorder.step(ref_of(pod), step.reason, step.text, step.container, is_warning=step.is_warning)

    def sandbox_changed(self, pod: Pod) -> None:
        """Make the event: the sandbox must be replaced."""
        self._record(pod, NORMAL, Reason.SANDBOX_CHANGED, "Pod sandbox changed, it will be killed and re-created.")

    def sandbox_failed(self, pod: Pod, error: Exception) -> None:
        """Make the event: the sandbox could not be created."""
        self._record(pod, WARNING, Reason.FAILED_CREATE_POD_SANDBOX, f"Failed to create pod sandbox: {error}")

    def names_unresolved(self, pod: Pod, why: str) -> None:
        """Make the event: no name resolves in the pod."""
        self._record(pod, WARNING, Reason.DNS_CONFIG_FORMING, f"No name resolves in the pod: {why}")

    def mount_failed(self, pod: Pod, error: Exception) -> None:
        """Make the event: a volume could not be mounted."""
        self._record(pod, WARNING, Reason.FAILED_MOUNT, f"Unable to attach or mount volumes: {error}")

    def cgroup_failed(self, pod: Pod, error: Exception) -> None:
        """Make the event: the control group of the pod could not be made."""
        self._record(
            pod, WARNING, Reason.FAILED_CREATE_POD_CONTAINER, f"unable to ensure pod container exists: {error}"
        )

    def not_synced(self, pod: Pod, error: Exception) -> None:
        """Make the event: the pod waits until something else than its containers is there or works."""
        self._record(pod, WARNING, Reason.FAILED_SYNC, f"error syncing pod: {error}")

    def sync_failed(self, pod: Pod, error: Exception) -> None:
        """Make the event: a sync of the pod failed unexpectedly; the log has the details."""
        self._record(pod, WARNING, Reason.FAILED_SYNC, f"Error syncing pod: {type(error).__name__}")

    def kill_failed(self, pod: Pod, error: Exception) -> None:
        """Make the event: the pod could not be killed; it is tried again."""
        self._record(pod, WARNING, Reason.FAILED_KILL_POD, f"error killing pod: {error}")

    def refused(self, pod: Pod, reason: str, message: str) -> None:
        """Make the event: the node has rejected or preempted the pod; the reason is its status'."""
        self._record(pod, WARNING, reason, message)

    def evicted(self, pod: Pod, message: str) -> None:
        """Make the event: the node has evicted the pod."""
        self._record(pod, WARNING, Reason.EVICTED, message)

    def created(self, pod: Pod, container: str) -> None:
        """Make the event: a container was created."""
        self._record(pod, NORMAL, Reason.CREATED, f"Created container: {container}", container)

    def started(self, pod: Pod, container: str) -> None:
        """Make the event: a container was started."""
        self._record(pod, NORMAL, Reason.STARTED, f"Started container {container}", container)

    def failed(self, pod: Pod, container: str, problem: str) -> None:
        """Make the event: a container could not be created or started."""
        self._record(pod, WARNING, Reason.FAILED, f"Error: {problem}", container)

    def killing(self, pod: Pod, container: str, message: str = "") -> None:
        """Make the event: a container is being stopped."""
        self._record(pod, NORMAL, Reason.KILLING, message or f"Stopping container {container}", container)

    def back_off(self, pod: Pod, container: str) -> None:
        """Make the event: a container is in back-off."""
        message = f"Back-off restarting failed container {container} in pod {ref_of(pod).with_uid}"
        self._record(pod, WARNING, Reason.BACK_OFF, message, container)

    def deadline_exceeded(self, pod: Pod, message: str) -> None:
        """Make the event: the pod has exceeded its active deadline."""
        self._record(pod, NORMAL, Reason.DEADLINE_EXCEEDED, message)

    def variables_skipped(self, pod: Pod, container: str, source: str, keys: Sequence[str]) -> None:
        """Record that keys of an envFrom source are not valid names of variables."""
        message = (
            f"Keys [{', '.join(keys)}] from the EnvFrom {source} were skipped since they are considered invalid"
            " environment variable names."
        )
        self._record(pod, WARNING, Reason.INVALID_VARIABLE_NAMES, message, container)

    def post_start_failed(self, pod: Pod, container: str) -> None:
        """Make the event: a container is stopped because its postStart hook failed."""
        self._record(pod, WARNING, Reason.FAILED_POST_START_HOOK, "PostStartHook failed", container)

    def pre_stop_failed(self, pod: Pod, container: str) -> None:
        """Make the event: a container is stopped although its preStop hook failed."""
        self._record(pod, WARNING, Reason.FAILED_PRE_STOP_HOOK, "PreStopHook failed", container)

    def unhealthy(self, pod: Pod, container: str, kind: str, problem: str) -> None:
        """Make the event: a probe failed."""
        self._record(pod, WARNING, Reason.UNHEALTHY, f"{kind.capitalize()} probe failed: {problem}", container)

    def probe_warned(self, pod: Pod, container: str, kind: str, warning: str) -> None:
        """Make the event: a probe succeeded, with a reason to look at it."""
        self._record(pod, WARNING, Reason.PROBE_WARNING, f"{kind.capitalize()} probe warning: {warning}", container)

    def probe_errored(self, pod: Pod, container: str, kind: str, problem: str) -> None:
        """Make the event: a probe could not be made, so the container's health is unknown."""
        self._record(pod, WARNING, Reason.UNHEALTHY, f"{kind.capitalize()} probe errored: {problem}", container)

    def image(self, pod: Pod, container: str, event_type: EventType, reason: Reason, message: str) -> None:
        """Make the event: an event about a container's image."""
        self._record(pod, event_type, reason, message, container)

    def _record(self, pod: Pod, event_type: EventType, reason: str, message: str, container: str = "") -> None:
        told = _ID.sub(container or pod.metadata.name, message)
        self._recorder.record(ref_of(pod), event_type, reason, told, container, among=_list_of(pod, container))


def _list_of(pod: Pod, container: str) -> str:
    """Return the list of the pod's spec that has the container."""
    spec = pod.spec
    for name, those in (("initContainers", spec.init_containers), ("ephemeralContainers", spec.ephemeral_containers)):
        if any(each.name == container for each in those):
            return name
    return "containers"

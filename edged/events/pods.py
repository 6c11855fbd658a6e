"""What is told of a pod's life, in a kubelet's sentences. One method for each thing that can happen.

Errors are told as they stand in the pod's status. What a hook or a probe has said is told nowhere: it may be a secret
(a kubelet shows a probe's output, and has come to leave out a hook's).
"""

from collections.abc import Sequence

from edged.api import Pod
from edged.events.model import EventType
from edged.events.reasons import Reason
from edged.events.recorder import EventRecorder
from edged.pods.labels import ref_of

NORMAL, WARNING = EventType.NORMAL, EventType.WARNING


class PodEvents:
    """See the module's docstring. May be called on any thread."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def sandbox_changed(self, pod: Pod) -> None:
        """The sandbox is there, and cannot stay."""
        self._tell(pod, NORMAL, Reason.SANDBOX_CHANGED, "Pod sandbox changed, it will be killed and re-created.")

    def sandbox_failed(self, pod: Pod, error: Exception) -> None:
        """There is no sandbox."""
        self._tell(pod, WARNING, Reason.FAILED_CREATE_POD_SANDBOX, f"Failed to create pod sandbox: {error}")

    def mount_failed(self, pod: Pod, error: Exception) -> None:
        """A volume is not as the pod wants it."""
        self._tell(pod, WARNING, Reason.FAILED_MOUNT, f"Unable to attach or mount volumes: {error}")

    def sync_failed(self, pod: Pod, error: Exception) -> None:
        """A turn of the pod failed in a way nobody foresaw; what exactly is in the log."""
        self._tell(pod, WARNING, Reason.FAILED_SYNC, f"Error syncing pod: {type(error).__name__}")

    def kill_failed(self, pod: Pod, error: Exception) -> None:
        """What runs could not be ended; it is tried again."""
        self._tell(pod, WARNING, Reason.FAILED_KILL_POD, f"error killing pod: {error}")

    def refused(self, pod: Pod, reason: str, message: str) -> None:
        """The node does not take the pod; the reason is that of its status."""
        self._tell(pod, WARNING, reason, message)

    def evicted(self, pod: Pod, message: str) -> None:
        """The node has ended the pod because it took too much."""
        self._tell(pod, WARNING, Reason.EVICTED, message)

    def created(self, pod: Pod, container: str) -> None:
        """A container is made."""
        self._tell(pod, NORMAL, Reason.CREATED, f"Created container: {container}", container)

    def started(self, pod: Pod, container: str) -> None:
        """A container runs."""
        self._tell(pod, NORMAL, Reason.STARTED, f"Started container {container}", container)

    def failed(self, pod: Pod, container: str, problem: str) -> None:
        """A container could not be made or started."""
        self._tell(pod, WARNING, Reason.FAILED, f"Error: {problem}", container)

    def killing(self, pod: Pod, container: str, message: str = "") -> None:
        """A container is asked to end."""
        self._tell(pod, NORMAL, Reason.KILLING, message or f"Stopping container {container}", container)

    def waits_to_restart(self, pod: Pod, container: str) -> None:
        """A container keeps ending."""
        message = f"Back-off restarting failed container {container} in pod {ref_of(pod)}"
        self._tell(pod, WARNING, Reason.BACK_OFF, message, container)

    def overdue(self, pod: Pod, message: str) -> None:
        """A pod has been active for longer than it may."""
        self._tell(pod, NORMAL, Reason.DEADLINE_EXCEEDED, message)

    def variables_skipped(self, pod: Pod, container: str, source: str, keys: Sequence[str]) -> None:
        """Keys of a configmap or secret that a container takes whole cannot be names of variables."""
        message = (
            f"Keys [{', '.join(keys)}] from the EnvFrom {source} were skipped since they are considered invalid"
            " environment variable names."
        )
        self._tell(pod, WARNING, Reason.INVALID_VARIABLE_NAMES, message, container)

    def post_start_failed(self, pod: Pod, container: str) -> None:
        """A container is ended because its hook failed."""
        self._tell(pod, WARNING, Reason.FAILED_POST_START_HOOK, "PostStartHook failed", container)

    def pre_stop_failed(self, pod: Pod, container: str) -> None:
        """A container is ended although its hook failed."""
        self._tell(pod, WARNING, Reason.FAILED_PRE_STOP_HOOK, "PreStopHook failed", container)

    def unhealthy(self, pod: Pod, container: str, kind: str, problem: str) -> None:
        """A probe got an answer, and it was no."""
        self._tell(pod, WARNING, Reason.UNHEALTHY, f"{kind.capitalize()} probe failed: {problem}", container)

    def cannot_be_asked(self, pod: Pod, container: str, kind: str, problem: str) -> None:
        """A probe got no answer, which says nothing about the container."""
        self._tell(pod, WARNING, Reason.UNHEALTHY, f"{kind.capitalize()} probe errored: {problem}", container)

    def image(self, pod: Pod, container: str, event_type: EventType, reason: Reason, message: str) -> None:
        """Something happened to the image of a container."""
        self._tell(pod, event_type, reason, message, container)

    def _tell(self, pod: Pod, event_type: EventType, reason: str, message: str, container: str = "") -> None:
        self._recorder.record(ref_of(pod), event_type, reason, message, container, among=_list_of(pod, container))


def _list_of(pod: Pod, container: str) -> str:
    """In which list of the pod's spec a container is."""
    spec = pod.spec
    for name, those in (("initContainers", spec.init_containers), ("ephemeralContainers", spec.ephemeral_containers)):
        if any(each.name == container for each in those):
            return name
    return "containers"

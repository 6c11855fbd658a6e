"""A pod's `activeDeadlineSeconds` (kubelet's activeDeadlineHandler)."""

from edged.pods.kill_options import KillOptions
from modules.apimachinery.types import Nanoseconds, Pod, parse_time, seconds

DEADLINE_EXCEEDED = KillOptions("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


def deadline_of(pod: Pod) -> Nanoseconds | None:
    """Return the end of a pod's active deadline; None without a deadline or before the pod has started.

    It counts from `status.startTime`, when the node accepted the pod, and so outlives a restart of the agent.
    """
    allowed, began = pod.spec.active_deadline_seconds, pod.status.start_time
    return None if allowed is None or not began else Nanoseconds(parse_time(began) + seconds(allowed))

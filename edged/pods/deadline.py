"""How long a pod may be active on the node: `activeDeadlineSeconds` (kubelet's activeDeadlineHandler)."""

from edged.api import Nanoseconds, Pod, parse_time, seconds
from edged.pods.verdict import Verdict

DEADLINE_EXCEEDED = Verdict("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


def deadline_of(pod: Pod) -> Nanoseconds | None:
    """When the pod has been active for as long as it may be; None when it may be for ever, or has not begun. It counts
    from the time when the node took notice of the pod (`status.startTime`), which outlives the agent.
    """
    allowed, began = pod.spec.active_deadline_seconds, pod.status.start_time
    return None if allowed is None or not began else Nanoseconds(parse_time(began) + seconds(allowed))
